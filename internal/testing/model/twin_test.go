package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

var (
	seedFlag = flag.Uint64("seed", 1, "seed of the random operations; 0 draws one")
	opsFlag  = flag.Int("operations", 100_000, "operations for each algorithm")
)

const (
	opsPerWorld = 1000
	fullEvery   = 1000 // one verdict in fullEvery is fully searched for by the twin
	resetEvery  = 4    // one ResetAt in resetEvery is compared
)

// seeded returns the seed of a test.
func seeded() uint64 {
	if *seedFlag == 0 {
		return rand.Uint64()
	}
	return *seedFlag
}

// TestLimitAgreesWithItsTwin runs random operations against package limit and its Model and compares every number of
// every verdict. It compares RetryAfter and ResetAt by asking the Model at that instant and one microsecond before it.
func TestLimitAgreesWithItsTwin(t *testing.T) {
	seed, ops := seeded(), *opsFlag
	t.Logf("to repeat: go test ./internal/testing/model -run %s -seed %d -operations %d", t.Name(), seed, ops)
	for a := limit.FixedWindow; a <= limit.Concurrency; a++ {
		ops := ops
		if a == limit.Calendar {
			ops /= 5 // its twin steps along a clock
		}
		t.Run(fmt.Sprintf("algorithm %d", a), func(t *testing.T) {
			t.Parallel()
			var total census
			for done := 0; done < ops; done += opsPerWorld {
				w := newWorld(t, rand.New(rand.NewPCG(seed, uint64(a)<<32|uint64(done))), a)
				w.run(opsPerWorld)
				total.add(w.census)
			}
			t.Logf("%d operations: %+v", ops, total)
			total.mustBeMixed(t, a)
		})
	}
}

// census counts events, so that a test that saw nothing interesting fails.
type census struct{ allowed, denied, never, added, refunded, equalTimes, reset, set int }

func (c *census) add(d census) {
	c.allowed += d.allowed
	c.denied += d.denied
	c.never += d.never
	c.added += d.added
	c.refunded += d.refunded
	c.equalTimes += d.equalTimes
	c.reset += d.reset
	c.set += d.set
}

func (c *census) mustBeMixed(t *testing.T, a limit.Algorithm) {
	all := c.allowed + c.denied
	if c.allowed*10 < all || c.refunded*50 < all || c.equalTimes*10 < all || c.reset*100 < all {
		t.Errorf("not mixed: %+v", *c)
	}
	if a != limit.Unlimited && ((c.denied+c.never)*10 < all || c.never == 0) {
		t.Errorf("too few denials: %+v", *c)
	}
}

// world is one limit, its state and its twin, driven by random operations.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	l      limit.Limit
	state  limit.State
	twin   *Model
	now    limit.Time
	taken  []take
	last   limit.Verdict
	story  []event
	census census
}

type event struct {
	now     limit.Time
	op      string
	units   uint64
	at      limit.Time
	verdict limit.Verdict
}

type take struct {
	at   limit.Time
	cost uint64
}

func newWorld(t *testing.T, rng *rand.Rand, a limit.Algorithm) *world {
	w := &world{t: t, rng: rng, l: randomLimit(rng, a)}
	if err := w.l.Validate(); err != nil {
		t.Fatalf("made an impossible limit %+v: %v", w.l, err)
	}
	w.twin = New(w.l)
	if rng.IntN(4) > 0 {
		w.now = limit.Time(rng.Int64N(1 << 51))
	}
	return w
}

func (w *world) run(ops int) {
	for range ops {
		w.advance()
		switch n := w.rng.IntN(100); {
		case n < 60:
			w.take()
		case n < 75:
			w.peek()
		case n < 90:
			w.refund()
		case n < 91:
			w.set()
		case n < 96:
			w.compare("status", limit.Status(w.l, w.state, w.now), 0, w.twin.numbers(w.now))
		case w.mayAdd():
			w.add()
		}
	}
}

func (w *world) take() {
	cost := w.cost()
	full := w.rng.IntN(fullEvery) == 0
	admits := w.twin.Admits(cost, w.now)
	before := w.state
	var got, want limit.Verdict
	w.state, got = limit.Take(w.l, before, cost, w.now)
	w.tell("take", cost, w.now, got)
	if full {
		want = w.twin.Take(cost, w.now)
	} else {
		if admits {
			w.twin.memory.count(cost, w.now)
		}
		want = w.expected(cost, admits)
	}
	if admits {
		w.taken = append(w.taken, take{w.now, cost})
	} else if string(limit.AppendState(nil, before)) != string(limit.AppendState(nil, w.state)) {
		w.fail("a denial changed the state from %+v to %+v", before, w.state)
	}
	w.judge(full, got, cost, want)
}

func (w *world) peek() {
	cost := w.cost()
	got := limit.Peek(w.l, w.state, cost, w.now)
	w.tell("peek", cost, w.now, got)
	if w.rng.IntN(fullEvery) == 0 {
		w.judge(true, got, cost, w.twin.Peek(cost, w.now))
		return
	}
	w.judge(false, got, cost, w.expected(cost, w.twin.Admits(cost, w.now)))
}

func (w *world) add() {
	units := w.cost()
	var got limit.Verdict
	if w.rng.IntN(2) == 0 {
		w.state, got = limit.Add(w.l, w.state, units, w.now)
		w.twin.count(units, w.now)
	} else {
		w.state, got = limit.AddBounded(w.l, w.state, units, w.now)
		w.twin.addBounded(units, w.now)
	}
	w.tell("add", units, w.now, got)
	w.taken = append(w.taken, take{w.now, units})
	want := w.twin.numbers(w.now)
	want.Allowed = w.l.Algorithm == limit.Unlimited || want.Used <= w.l.Quota
	w.census.added++
	w.compare("add", got, 0, want)
}

// refund gives back something that was taken, and now and then more than that.
func (w *world) refund() {
	if len(w.taken) == 0 {
		return
	}
	i := max(0, len(w.taken)-1-w.rng.IntN(8))
	back := w.taken[i]
	w.taken = append(w.taken[:i], w.taken[i+1:]...)
	if len(w.taken) > 64 {
		w.taken = w.taken[32:]
	}
	if w.rng.IntN(8) == 0 {
		back.cost = 1 + w.rng.Uint64N(2*back.cost)
	}
	w.tell("refund", back.cost, back.at, limit.Verdict{})
	w.state = limit.Refund(w.l, w.state, min(back.cost, limit.MaxCost), back.at, w.now)
	w.twin.Refund(min(back.cost, limit.MaxCost), back.at, w.now)
	w.census.refunded++
	w.compare("refund", limit.Status(w.l, w.state, w.now), 0, w.twin.numbers(w.now))
}

// set replaces the used amount, now and then by one above the quota.
func (w *world) set() {
	if !w.mayAdd() {
		return
	}
	units := w.rng.Uint64N(w.l.Quota + w.l.Quota/8 + 2)
	w.state = limit.SetUsed(w.l, w.state, units, w.now)
	w.tell("set", units, w.now, limit.Verdict{})
	w.twin.SetUsed(units, w.now)
	w.taken = append(w.taken, take{w.now, max(1, min(units, limit.MaxCost/2))})
	w.census.set++
	w.compare("set", limit.Status(w.l, w.state, w.now), 0, w.twin.numbers(w.now))
}

func (w *world) expected(cost uint64, admits bool) limit.Verdict {
	v := w.twin.numbers(w.now)
	v.Allowed = admits
	return v
}

// judge compares a decision with the twin's: completely, or its instants by asking around them.
func (w *world) judge(full bool, got limit.Verdict, cost uint64, want limit.Verdict) {
	switch {
	case got.RetryAfter == limit.Never:
		w.census.never++
	case got.Allowed:
		w.census.allowed++
	default:
		w.census.denied++
	}
	if full && got != want {
		w.fail("got  %+v\nwant %+v", got, want)
	}
	w.compare("decision", got, cost, want)
}

func (w *world) compare(what string, got limit.Verdict, cost uint64, want limit.Verdict) {
	want.ResetAt, want.RetryAfter = got.ResetAt, got.RetryAfter
	if got != want {
		w.fail("%s: got  %+v\nwant %+v", what, got, want)
	}
	w.compareReset(got)
	if cost > 0 {
		w.compareRetry(got, cost)
	}
	if got.Allowed && got.Used+got.Remaining != w.l.Quota && w.l.Algorithm != limit.Unlimited && got.Used <= w.l.Quota {
		w.fail("%s: used %d and remaining %d are not the quota", what, got.Used, got.Remaining)
	}
	w.last = got
}

func (w *world) compareReset(got limit.Verdict) {
	switch {
	case w.rng.IntN(resetEvery) != 0:
	case got.ResetAt == 0 && !w.twin.Idle(w.now):
		if w.twin.Idle(limit.MaxTime) {
			w.fail("reset never, but the twin is idle in the end")
		}
	case !w.twin.Idle(got.ResetAt) || got.ResetAt > w.now && w.twin.Idle(got.ResetAt-1):
		w.fail("reset at %d is not the first idle instant", got.ResetAt)
	}
}

func (w *world) compareRetry(got limit.Verdict, cost uint64) {
	at := w.now + limit.Time(got.RetryAfter)
	switch {
	case got.Allowed && got.RetryAfter == 0:
	case got.RetryAfter == limit.Never:
		if w.twin.Admits(cost, limit.MaxTime) {
			w.fail("never, but the twin admits %d in the end", cost)
		}
	case got.RetryAfter <= 0, !w.twin.Admits(cost, at), w.twin.Admits(cost, at-1):
		w.fail("retry after %d is not the first instant that admits %d", got.RetryAfter, cost)
	}
}

// advance moves time: not at all, by a little, to an edge or one microsecond beside it, or far.
func (w *world) advance() {
	from := w.now
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.census.equalTimes++
	case 3:
		w.now++
	case 4, 5:
		w.now += limit.Time(w.rng.Int64N(w.stride()/8 + 2))
	case 6:
		w.now += limit.Time(w.rng.Int64N(w.stride() + 1))
	case 7:
		w.now = w.last.ResetAt + limit.Time(w.rng.IntN(3)-1)
	case 8:
		w.now += limit.Time(w.last.RetryAfter) + limit.Time(w.rng.IntN(3)-1)
	case 9:
		if w.now += limit.Time(w.stride()) + limit.Time(w.rng.IntN(3)-1); w.rng.IntN(4) == 0 {
			w.now += limit.Time(w.rng.Int64N(4 * w.stride()))
		}
	}
	// With a rate so slow that it needs centuries, time would leave its range.
	if w.now < from || w.now > limit.MaxTime/2 {
		w.now = from
	}
	if w.now > from && w.now >= w.last.ResetAt {
		w.census.reset++
	}
}

// stride is roughly the time after which the limit forgets.
func (w *world) stride() int64 {
	if w.l.Algorithm == limit.Calendar {
		seconds := [...]int64{limit.Minute: 60, limit.Hour: 3600, limit.Day: 86_400, limit.Week: 7 * 86_400,
			limit.Month: 31 * 86_400, limit.Year: 366 * 86_400}
		return seconds[w.l.Cycle.Unit] * int64(w.l.Cycle.Every) * 1_000_000
	}
	if w.l.Period == 0 {
		return 1000
	}
	return int64(w.l.Period)
}

func (w *world) cost() uint64 {
	most := min(w.l.Quota, limit.MaxCost)
	if w.l.Algorithm == limit.Unlimited {
		most = 1000
	}
	switch w.rng.IntN(12) {
	case 0:
		return 1
	case 1:
		return most
	case 2:
		return min(most+1, limit.MaxCost)
	case 3:
		return 1 + w.rng.Uint64N(most)
	default:
		return 1 + w.rng.Uint64N(most/3+1)
	}
}

// mayAdd is false near the numbers at which Add saturates; the twin does not saturate.
func (w *world) mayAdd() bool {
	if w.l.Count == 0 {
		return true
	}
	return w.twin.memory.used(w.now).Cmp(rat(1<<62/uint64(w.l.Period)/8)) < 0 && w.l.Quota < 1<<58/uint64(w.l.Period)
}

// tell records the last operations for a failure report.
func (w *world) tell(op string, units uint64, at limit.Time, v limit.Verdict) {
	if len(w.story) > 40 {
		w.story = w.story[20:]
	}
	w.story = append(w.story, event{w.now, op, units, at, v})
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	var story strings.Builder
	for _, e := range w.story {
		fmt.Fprintf(&story, "%d: %s %d of %d: %+v\n", e.now, e.op, e.units, e.at, e.verdict)
	}
	w.t.Fatalf("at %d of %+v\nstate %+v\n%s%s", w.now, w.l, w.state, &story, fmt.Sprintf(format, args...))
}

var zones = func() (all []*limit.Zone) {
	for _, name := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana",
		"Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu"} {
		z, err := limit.LoadZone(name)
		if err != nil {
			panic(err)
		}
		all = append(all, z)
	}
	return all
}()

func randomCycle(rng *rand.Rand) *limit.Cycle {
	c := &limit.Cycle{Unit: limit.Unit(1 + rng.IntN(int(limit.Year))), Every: 1, Zone: zones[rng.IntN(len(zones))]}
	most := [...]int{limit.Minute: 90, limit.Hour: 26, limit.Day: 40, limit.Week: 8, limit.Month: 14, limit.Year: 3}
	if rng.IntN(2) == 0 {
		c.Every = uint16(1 + rng.IntN(most[c.Unit]))
	}
	switch c.Unit {
	case limit.Week:
		c.WeekStart = uint8(1 + rng.IntN(7))
	case limit.Month, limit.Year:
		c.AnchorDay = uint8(1 + rng.IntN(31))
	}
	return c
}

// randomLimit draws numbers small enough to be stepped through microsecond by microsecond, numbers as users write them,
// and the largest possible ones.
func randomLimit(rng *rand.Rand, a limit.Algorithm) limit.Limit {
	l := limit.Limit{Algorithm: a}
	switch rng.IntN(5) {
	case 0, 1:
		l.Quota, l.Period, l.Count = 1+rng.Uint64N(12), limit.Span(1+rng.Int64N(60)), 1+rng.Uint64N(90)
	case 2:
		l.Quota, l.Period, l.Count = 1+rng.Uint64N(1000), limit.Span(1+rng.Int64N(3600))*1_000_000, 1+rng.Uint64N(1000)
	case 3:
		l.Quota, l.Period, l.Count = 1+rng.Uint64N(10000), limit.Span(1+rng.Int64N(1<<41)), 1+rng.Uint64N(1<<53)
	case 4:
		l.Quota, l.Period, l.Count = 1+rng.Uint64N(1<<53), limit.MaxPeriod-limit.Span(rng.Int64N(1<<40)),
			1+rng.Uint64N(1<<53)
	}
	switch a {
	case limit.SlidingLog:
		l.Quota = 1 + (l.Quota-1)%limit.MaxLogQuota
	case limit.SlidingBuckets:
		l.Bucket = max(1, l.Period/limit.Span(1+rng.Int64N(64)))
		l.Period -= l.Period % l.Bucket
	case limit.TokenBucket, limit.GCRA:
		// Quota times Period, reduced or not, must fit 62 bits.
		l.Quota = 1 + (l.Quota-1)%(1<<62/uint64(l.Period))
	case limit.Lifetime, limit.Concurrency:
		l.Period = 0
	case limit.Calendar:
		l.Period, l.Cycle = 0, randomCycle(rng)
	case limit.Unlimited:
		l.Quota, l.Period = 0, 0
	}
	if a != limit.TokenBucket && a != limit.GCRA {
		l.Count = 0
	}
	if a == limit.TokenBucket {
		if l.Initial = l.Quota; rng.IntN(4) == 0 {
			l.Initial = 1 + rng.Uint64N(l.Quota)
		}
	}
	return l
}
