package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// waitLimits are small enough for every microsecond to be tried.
var waitLimits = []limit.Limit{
	{Algorithm: limit.FixedWindow, Quota: 6, Period: 40},
	{Algorithm: limit.FixedWindowFirstHit, Quota: 6, Period: 50},
	{Algorithm: limit.SlidingWindow, Quota: 7, Period: 60},
	{Algorithm: limit.SlidingBuckets, Quota: 5, Period: 60, Bucket: 10},
	{Algorithm: limit.SlidingLog, Quota: 6, Period: 70},
	{Algorithm: limit.TokenBucket, Quota: 6, Count: 1, Period: 9, Initial: 6},
	{Algorithm: limit.TokenBucket, Quota: 9, Count: 2, Period: 7, Initial: 3},
	{Algorithm: limit.GCRA, Quota: 5, Count: 3, Period: 20},
	{Algorithm: limit.Lifetime, Quota: 25},
	{Algorithm: limit.Concurrency, Quota: 6},
	{Algorithm: limit.Unlimited},
}

// waitHorizon is an instant after which nothing changes by itself any more.
const waitHorizon = 1500

// A denial's wait is exact, also when it ends because holds expire, or lasts because they expire into violations and
// block the key: asked again at that instant the request is admitted, asked at any instant before it is denied. So is
// the wait of each limit that denies.
func TestWaitsAreExactWithHolds(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	games := 400
	if testing.Short() {
		games = 40
	}
	denials := 0
	for range games {
		w, now := waitWorld(t, rnd), origin
		for range 12 {
			now += limit.Time(rnd.Int64N(40))
			w.batch(now, drawWaiting(rnd, now), drawWaiting(rnd, now))
		}
		r := drawWaiting(rnd, now)
		for r.Op == Count || r.Op == Block {
			r = drawWaiting(rnd, now)
		}
		results, _ := w.batch(now, r)
		if results[0].Err != nil {
			t.Fatal(results[0].Err)
		}
		if d := &results[0].Decision; !d.Allowed {
			denials++
			judgeWaits(t, w, &r, d, now)
		}
		judgeForgetting(t, w, now)
		if t.Failed() {
			return
		}
	}
	if denials < games/8 {
		t.Errorf("only %d denials in %d games", denials, games)
	}
}

// waitWorld is a shard with two policies of random limits, ladders and ends of holds.
func waitWorld(t *testing.T, rnd *rand.Rand) *world {
	var policies []*policy.Policy
	for _, name := range []string{"p", "q"} {
		p := &policy.Policy{Name: name, Retention: 500, OnExpire: policy.OnExpire(rnd.IntN(3)), Shadow: rnd.IntN(8) == 0}
		for i := range 1 + rnd.IntN(3) {
			p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprint("limit ", i), Shadow: rnd.IntN(6) == 0,
				Limit: waitLimits[rnd.IntN(len(waitLimits))]})
		}
		if rnd.IntN(2) == 0 {
			p.Lockout = &policy.Lockout{After: 1 + rnd.Uint32N(3), Base: limit.Span(1 + rnd.Int64N(20)),
				Factor: 1 + rnd.Uint32N(3), Max: limit.Span(20 + rnd.Int64N(80)), ForgiveAfter: limit.Span(1 + rnd.Int64N(200)),
				StepDown: rnd.IntN(2) == 0}
		}
		if rnd.IntN(3) == 0 {
			p.CountDenied = true
			if p.Lockout != nil {
				p.Lockout.OnDenied = rnd.IntN(2) == 0
			}
		}
		policies = append(policies, p)
	}
	return newWorld(t, policies...)
}

func drawWaiting(rnd *rand.Rand, now limit.Time) Request {
	r := Request{Namespace: "default", Op: []Op{Reserve, Reserve, Reserve, Reserve, Check, Check, Partial, Peek, Count, Block}[rnd.IntN(10)]}
	for _, name := range []string{"p", "q"}[rnd.IntN(2):] {
		r.Entries = append(r.Entries, Entry{Policy: name, Key: "k", Cost: 1 + rnd.Uint64N(5)})
	}
	switch r.Op {
	case Reserve:
		r.Hold = &HoldTerms{TTL: limit.Span(1 + rnd.Int64N(120)), OnExpire: policy.OnExpire(rnd.IntN(3))}
	case Block:
		r.Entries = r.Entries[:1]
		r.Adjustment = &Adjustment{Until: now + 1 + limit.Time(rnd.Int64N(100))}
	}
	return r
}

// judgeWaits asks again at every instant, each time as if nobody had asked since the denial.
func judgeWaits(t *testing.T, w *world, r *Request, d *Decision, now limit.Time) {
	first, firstOf := limit.Never, make([]limit.Span, len(d.Limits))
	for n := range firstOf {
		firstOf[n] = limit.Never
	}
	for span := range limit.Span(waitHorizon) {
		again := *r
		results, _ := Evaluate(w, w.policies, []Request{again}, w.next(now+limit.Time(span)))
		if first == limit.Never && results[0].Decision.Allowed {
			first = span
		}
		for n := range firstOf {
			if firstOf[n] == limit.Never && results[0].Decision.Limits[n].Allowed {
				firstOf[n] = span
			}
		}
	}
	if d.RetryAfter != first {
		t.Errorf("at %d %+v is denied with a wait of %d, and admitted after %d: %+v", now-origin, *r, d.RetryAfter, first, d.Limits)
	}
	for n := range firstOf {
		// One in shadow is asked by a Partial for what all others grant, which is something else at any instant.
		if s := &d.Limits[n]; !s.Allowed && !(s.Shadow && r.Op == Partial) && s.RetryAfter != firstOf[n] {
			t.Errorf("at %d %+v is denied by %+v, which admits it after %d", now-origin, *r, *s, firstOf[n])
		}
	}
}

// judgeForgetting looks at each key when its record ends: a shard that has forgotten it says the same as one that has
// not, but for what only an Unlimited or a used bucket knows for ever.
func judgeForgetting(t *testing.T, w *world, now limit.Time) {
	for key, record := range allRecords(w.state.table) {
		if key[0] != counterRecord || record.ForgetAt == limit.Forever {
			continue
		}
		r := Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: key[len(key)-2 : len(key)-1], Key: "k"}}}
		at := Stamp{w.next(now).Position, max(now, record.ForgetAt)}
		kept := keeper{w, map[string]Record{key: {record.Value, limit.Forever}}}
		remembered, _ := Evaluate(kept, w.policies, []Request{r}, at)
		forgotten, _ := Evaluate(w, w.policies, []Request{r}, at)
		for n := range remembered[0].Decision.Limits {
			if got, want := forgotten[0].Decision.Limits[n], remembered[0].Decision.Limits[n]; got != want {
				t.Errorf("forgotten at %d: %+v\nremembered: %+v", at.Now-origin, got, want)
			}
		}
	}
}

// keeper is a view with some records that live for longer.
type keeper struct {
	View
	kept map[string]Record
}

func (k keeper) Lookup(key string) (Record, bool) {
	if r, ok := k.kept[key]; ok {
		return r, true
	}
	return k.View.Lookup(key)
}

// A denial looks past every hold that must end first. Under numbers that are not the record's it must not search between
// any two of them: whoever brings limits along could make a shard stand still.
func TestTheWaitBehindManyHoldsIsFoundUnderOtherNumbersToo(t *testing.T) {
	const holds = 2000
	w := newWorld(t)
	ask := func(quota, cost uint64) Request {
		r := checkOf("any", "k", cost)
		r.Entries[0].Limits = []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: quota, Period: day}}}
		return r
	}
	for i := range holds {
		r := ask(holds, 1)
		r.Op, r.Hold = Reserve, &HoldTerms{TTL: hour + limit.Span(i)*millisecond}
		w.batch(origin, r)
	}
	last := hour + (holds-1)*millisecond
	quickest := func(r Request) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 5 {
			began := time.Now()
			results, _ := w.batch(origin, r)
			least = min(least, time.Since(began))
			if d := &results[0].Decision; d.Allowed || d.RetryAfter != last {
				t.Fatalf("%v: got %v, want a denial for %v", results[0].Err, d, last)
			}
		}
		return least
	}
	same, other := quickest(ask(holds, holds)), quickest(ask(1, 1))
	if other > 20*same {
		t.Errorf("behind %d holds a denial takes %v, and under other numbers %v", holds, same, other)
	}
}
