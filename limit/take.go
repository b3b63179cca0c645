package limit

import "fmt"

// counter is what an algorithm must be able to do. Its methods have no state of their own. All but settle and
// forgetAt are given a settled State. An empty State is the zero State, before and after.
type counter interface {
	// settle drops what no longer counts at now.
	settle(l Limit, s State, now Time) State
	// wait is 0 if cost fits now, else how long until it would, or Never. The caller has seen that cost <= Quota.
	wait(l Limit, s State, cost uint64, now Time) Span
	// add counts units at now, saturating at maxUnits.
	add(l Limit, s State, units uint64, now Time) State
	// refund gives back units counted at taken, no more than still count.
	refund(l Limit, s State, units uint64, taken, now Time) State
	// stillCounts reports whether refund would find anything counted at taken.
	stillCounts(l Limit, s State, taken, now Time) bool
	// status fills in Used, WindowStart and ResetAt.
	status(l Limit, s State, now Time) Verdict
	// forgetAt is 0 for the zero State.
	forgetAt(l Limit, s State) Time
}

var counters = [...]counter{
	FixedWindow:         fixedWindow{},
	FixedWindowFirstHit: fixedWindow{},
	SlidingWindow:       slidingWindow{},
	SlidingBuckets:      slidingBuckets{},
	SlidingLog:          slidingLog{},
	TokenBucket:         tokenBucket{},
	GCRA:                gcra{},
	Lifetime:            lifetime{},
	Unlimited:           unlimited{},
	Calendar:            calendar{},
	Concurrency:         concurrency{},
}

func (a Algorithm) known() bool { return int(a) < len(counters) && counters[a] != nil }

// Take decides a request of cost units at now and counts it if it is admitted. Denied, the State is the one given.
func Take(l Limit, s State, cost uint64, now Time) (State, Verdict) {
	c := counterOf(l, now)
	mustCost(cost)
	settled := c.settle(l, s, now)
	if wait := waitFor(c, l, settled, cost, now); wait != 0 {
		return s, denied(verdict(c, l, settled, now), wait)
	}
	counted := c.add(l, settled, cost, now)
	return counted, verdict(c, l, counted, now)
}

// Peek says what Take would decide, without counting: Used and Remaining are those before the request.
func Peek(l Limit, s State, cost uint64, now Time) Verdict {
	c := counterOf(l, now)
	mustCost(cost)
	settled := c.settle(l, s, now)
	v := verdict(c, l, settled, now)
	if wait := waitFor(c, l, settled, cost, now); wait != 0 {
		return denied(v, wait)
	}
	return v
}

// Status is the state of a limit without a request: nothing is decided, and Allowed is true.
func Status(l Limit, s State, now Time) Verdict {
	c := counterOf(l, now)
	return verdict(c, l, c.settle(l, s, now), now)
}

// Add counts cost units at now whatever the limit says, also past the quota. Allowed says whether the quota still
// holds them. The count saturates at 2^62 units (a level at 2^62 parts of a unit).
//
// Debts end: a bucket and GCRA are charged until 2 * Quota is used, so that nobody waits longer than two fillings.
// Windows need no such bound. A sliding log keeps 10,000 instants at most, whatever its quota is.
func Add(l Limit, s State, cost uint64, now Time) (State, Verdict) {
	c := counterOf(l, now)
	mustCost(cost)
	settled := c.settle(l, s, now)
	if l.hasRate() {
		cost = min(cost, less(2*l.Quota, c.status(l, settled, now).Used))
	}
	counted := c.add(l, settled, cost, now)
	v := verdict(c, l, counted, now)
	v.Allowed = v.Used <= l.Quota || l.Algorithm == Unlimited
	return counted, v
}

// Refund gives back cost units of a Take made at taken: never more than its window or bucket still counts, and
// nothing when that window has passed. The units of one Take may be given back once: the caller sees to that.
// A state with nothing left in it is the zero State again, so an open window anchored at its first hit closes.
func Refund(l Limit, s State, cost uint64, taken, now Time) State {
	c := counterOf(l, now)
	mustCost(cost)
	mustTaken(taken, now)
	return c.refund(l, c.settle(l, s, now), cost, taken, now)
}

// StillCounts reports whether a Refund, at now, of units taken at taken would give anything back: whether what was
// counted then is still live. A bucket and GCRA do not know when they were charged: what is missing can be given back.
func StillCounts(l Limit, s State, taken, now Time) bool {
	c := counterOf(l, now)
	mustTaken(taken, now)
	return c.stillCounts(l, c.settle(l, s, now), taken, now)
}

// SetUsed makes used units the ones that are used at now, neither more nor fewer. Fixed windows and calendars keep their
// open window, and open one if there is none; a tally keeps its end; a sliding window and a log remember one hit, at now.
// A bucket and GCRA are bounded as Add bounds them, and the count saturates as there. With 0 used the State is the zero
// State: a key at rest.
func SetUsed(l Limit, s State, used uint64, now Time) State {
	c := counterOf(l, now)
	if used == 0 {
		return State{}
	}
	if l.hasRate() {
		used = min(used, 2*l.Quota)
	}
	var kept State
	switch {
	case l.hasWindow():
		kept = c.settle(l, s, now)
		kept.A = 0
	case IsTally(l, c.settle(l, s, now)):
		kept = Tally{EndsAt: s.T}.State()
	}
	return c.add(l, kept, min(used, maxUnits), now)
}

// ForgetAt is the first instant from which every answer about the State is the one about the zero State, so that it
// may be dropped; Forever if that never comes.
func ForgetAt(l Limit, s State) Time {
	return counterOf(l, 0).forgetAt(l, s)
}

func waitFor(c counter, l Limit, settled State, cost uint64, now Time) Span {
	if cost > l.Quota && l.Algorithm != Unlimited {
		return Never
	}
	return c.wait(l, settled, cost, now)
}

func verdict(c counter, l Limit, settled State, now Time) Verdict {
	v := c.status(l, settled, now)
	v.Allowed = true
	v.Remaining = l.Quota - min(v.Used, l.Quota)
	return v
}

func denied(v Verdict, wait Span) Verdict {
	v.Allowed = false
	v.RetryAfter = wait
	return v
}

func counterOf(l Limit, now Time) counter {
	if now < 0 || now > MaxTime {
		panic(fmt.Sprintf("limit: now is %d, outside 0..%d", now, MaxTime))
	}
	if !l.Algorithm.known() {
		panic(fmt.Sprintf("limit: %d is not an algorithm", l.Algorithm))
	}
	return counters[l.Algorithm]
}

func mustTaken(taken, now Time) {
	if taken < 0 || taken > now {
		panic(fmt.Sprintf("limit: refund at %d of a take made at %d", now, taken))
	}
}

func mustCost(cost uint64) {
	if cost == 0 || cost > MaxCost {
		panic(fmt.Sprintf("limit: cost is %d, outside 1..%d", cost, uint64(MaxCost)))
	}
}
