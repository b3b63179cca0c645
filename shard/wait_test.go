package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// waitLimits are small enough to try every microsecond.
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

// waitHorizon is an instant after which nothing changes on its own.
const waitHorizon = 1500

// A denial's wait is exact, even if it ends because holds expire, or lasts because they expire into violations and
// block the key. At that instant the request is admitted, and at any earlier instant it is denied. The same holds for
// the wait of each denying limit.
func TestWaitsAreExactWithHolds(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	games := 40 * times()
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

// waitWorld returns a shard with two policies of random limits, ladders and ends of holds.
func waitWorld(t *testing.T, rnd *rand.Rand) *world {
	var policies []*policy.Policy
	for _, name := range []string{"p", "q"} {
		p := &policy.Policy{Name: name, Retention: 500, OnExpire: policy.OnExpire(rnd.IntN(3)),
			Shadow: rnd.IntN(8) == 0}
		for i := range 1 + rnd.IntN(3) {
			p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprint("limit ", i), Shadow: rnd.IntN(6) == 0,
				Limit: waitLimits[rnd.IntN(len(waitLimits))]})
		}
		if rnd.IntN(2) == 0 {
			p.Lockout = &policy.Lockout{After: 1 + rnd.Uint32N(3), Base: limit.Span(1 + rnd.Int64N(20)),
				Factor: 1 + rnd.Uint32N(3), Max: limit.Span(20 + rnd.Int64N(80)),
				ForgiveAfter: limit.Span(1 + rnd.Int64N(200)),
				StepDown:     rnd.IntN(2) == 0}
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
	r := Request{Namespace: "default", Op: []Op{Reserve, Reserve, Reserve, Reserve, Check, Check, Partial, Peek, Count,
		Block}[rnd.IntN(10)]}
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

// judgeWaits asks again at every instant, each time as the first request after the denial.
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
		t.Errorf("at %d %+v is denied with a wait of %d, and admitted after %d: %+v",
			now-origin, *r, d.RetryAfter, first, d.Limits)
	}
	for n := range firstOf {
		// A Partial asks a limit in shadow for what all others grant, which differs from instant to instant.
		if s := &d.Limits[n]; !s.Allowed && !(s.Shadow && r.Op == Partial) && s.RetryAfter != firstOf[n] {
			t.Errorf("at %d %+v is denied by %+v, which admits it after %d", now-origin, *r, *s, firstOf[n])
		}
	}
}

// judgeForgetting looks at each key when its record ends: a shard that has forgotten the key gives the same answers as
// one that has not, except for the state of an Unlimited or a used bucket, which is never forgotten.
func judgeForgetting(t *testing.T, w *world, now limit.Time) {
	for key, record := range allRecords(w.state) {
		if key[0] != counterRecord || record.ForgetAt == limit.Forever {
			continue
		}
		r := Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: key[len(key)-2 : len(key)-1], Key: "k"}}}
		at := Stamp{Position: w.next(now).Position, Now: max(now, record.ForgetAt)}
		kept := keeper{w, map[string]Record{key: {Value: record.Value, ForgetAt: limit.Forever}}}
		remembered, _ := Evaluate(kept, w.policies, []Request{r}, at)
		forgotten, _ := Evaluate(w, w.policies, []Request{r}, at)
		for n := range remembered[0].Decision.Limits {
			if got, want := forgotten[0].Decision.Limits[n], remembered[0].Decision.Limits[n]; got != want {
				t.Errorf("forgotten at %d: %+v\nremembered: %+v", at.Now-origin, got, want)
			}
		}
	}
}

// keeper is a view in which some records live longer.
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

// A denial looks past every hold that must end first, and begins with the last of them, also under numbers other than
// the record's. If it looked between each two, a client with inline limits could stop a shard.
func TestTheWaitBehindManyHoldsIsFoundUnderOtherNumbersToo(t *testing.T) {
	const holds = 20
	last := origin + limit.Time(hour+(holds-1)*millisecond)
	for _, algorithm := range []limit.Algorithm{limit.Concurrency, limit.Lifetime} {
		w := newWorld(t)
		ask := func(quota, cost uint64, ttl limit.Span) Request {
			r := checkOf("any", "k", cost)
			r.Entries[0].Limits = []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: algorithm, Quota: quota}}}
			r.Op, r.Hold = Reserve, &HoldTerms{TTL: ttl}
			return r
		}
		for i := range holds {
			w.must(origin, ask(holds, 1, hour+limit.Span(i)*millisecond))
		}
		for _, r := range []Request{ask(holds, holds, hour), ask(1, 1, hour)} {
			results, _ := w.batch(origin, r)
			if d := &results[0].Decision; d.Allowed || origin+limit.Time(d.RetryAfter) != last {
				t.Errorf("%v: %v: got %v, want a denial until %v", algorithm, results[0].Err, d, last)
			}
			e := evaluation{batch: batch{view: w, policies: w.policies, at: Stamp{Now: origin}}}
			d := e.newDecision()
			if err := e.decideEntries(&r, Reserve, &d); err != nil {
				t.Fatal(err)
			}
			begins := startOfWait(&r, Reserve, []future{e.charges[0].future(origin)}, -1, origin)
			if begins != last {
				t.Errorf("%v, quota %d: it looks from %v on, want %v", algorithm, r.Entries[0].Limits[0].Quota, begins, last)
			}
		}
	}
}

// The wait for the end of a ban, or of a smaller quota, is no longer than the override.
func TestADenialKnowsWhenAnOverrideEnds(t *testing.T) {
	number := func(n uint64) *uint64 { return &n }
	bucket := limit.Limit{Algorithm: limit.TokenBucket, Quota: 10, Initial: 10, Count: 1, Period: second}
	for name, story := range map[string]struct {
		limit    limit.Limit
		override policy.TierLimit
		cost     uint64
		unknown  policy.UnknownKey
		on       policy.OnChange
		wait     limit.Span
	}{
		"a ban": {limit: bucket, override: policy.TierLimit{Quota: number(0)}, cost: 1, wait: 5*second - 1},
		"a lifetime's": {limit: lifetimeOf(11), override: policy.TierLimit{Quota: number(0)}, cost: 1,
			wait: 5*second - 1},
		"more is asked":   {limit: bucket, override: policy.TierLimit{Quota: number(0)}, cost: 8, wait: 8*second - 1},
		"not fast enough": {limit: bucket, override: policy.TierLimit{Quota: number(5)}, cost: 6, wait: 6*second - 1},
		"an unknown key": {limit: bucket, override: policy.TierLimit{Quota: number(0)}, cost: 1,
			unknown: policy.UnknownKeyDeny, wait: limit.Never},
		"a restart": {limit: bucket, override: policy.TierLimit{Quota: number(0)}, cost: 8, on: policy.Restart,
			wait: 8*second - 1},
		"additive": {limit: bucket, override: policy.TierLimit{Quota: number(0)}, cost: 8, on: policy.Additive,
			wait: 8*second - 1},
	} {
		p := onePolicy(story.limit)
		p.OnChange = story.on
		w := newWorld(t, p)
		w.must(origin, checkOf("p", "k", 10))
		w.must(origin, Request{Op: PutOverride, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
			Adjustment: &Adjustment{
				Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": story.override},
					Expires: origin + limit.Time(5*second)}}})
		p.UnknownKey = story.unknown
		d := w.must(origin+1, checkOf("p", "k", story.cost))
		if d.Allowed || d.RetryAfter != story.wait || d.Limits[0].RetryAfter != story.wait {
			t.Errorf("%s: retry after %d, the limit's %d, want %d",
				name, d.RetryAfter, d.Limits[0].RetryAfter, story.wait)
		}
		if story.wait == limit.Never {
			continue
		}
		for _, early := range []limit.Time{1, 0} {
			if d := w.must(origin+1+limit.Time(d.RetryAfter)-early,
				checkOf("p", "k", story.cost)); d.Allowed != (early == 0) {
				t.Errorf("%s: %d us early: %+v", name, early, d)
			}
		}
	}
}
