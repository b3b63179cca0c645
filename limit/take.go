package limit

import "fmt"

// counter is the implementation of an algorithm. It keeps no state of its own. All methods but settle and forgetAt are
// given a settled State. An empty State is always the zero State.
type counter interface {
	// settle drops what no longer counts at now.
	settle(l Limit, s State, now Time) State
	// wait returns 0 if cost fits now, else the time until it would, or Never. The caller has checked that cost <=
	// Quota.
	wait(l Limit, s State, cost uint64, now Time) Span
	// add counts units at now, saturating at maxUnits.
	add(l Limit, s State, units uint64, now Time) State
	// refund gives back units counted at taken: at most the units that still count and have not come back on their own.
	refund(l Limit, s State, units uint64, taken, now Time) State
	// stillCounts reports whether refund would find anything counted at taken.
	stillCounts(l Limit, s State, taken, now Time) bool
	// status fills in Used, WindowStart and ResetAt.
	status(l Limit, s State, now Time) Verdict
	// forgetAt implements ForgetAt. It returns 0 for the zero State.
	forgetAt(l Limit, s State) Time
	// full implements Full.With for a limit with a quota. found is settled at f.At.
	full(l Limit, found State, f Full) State
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

// Take decides a request of cost units at now and counts it if it is admitted. A denied Take returns s unchanged.
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

// Peek returns the decision of Take without counting. Used and Remaining are those before the request.
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

// Status returns the state of a limit without a request: nothing is decided, and Allowed is true.
func Status(l Limit, s State, now Time) Verdict {
	c := counterOf(l, now)
	return verdict(c, l, c.settle(l, s, now), now)
}

// Add counts cost units at now without deciding, even past the quota. Allowed reports whether the total is within the
// quota. The count saturates at 2^62 units. For a token bucket and GCRA, where a debt delays requests like any other
// use, it saturates at 2^62 parts of a unit (rate.go). A sliding log keeps at most 10,000 instants, regardless of its
// quota.
func Add(l Limit, s State, cost uint64, now Time) (State, Verdict) {
	c := counterOf(l, now)
	mustCost(cost)
	return added(c, l, c.settle(l, s, now), cost, now)
}

// AddBounded is Add for units that the caller did not ask to be charged, such as those of a denied request. It charges
// a token bucket or GCRA only until 2 * Quota is used, so that a client waits for two fillings at most. Windows need no
// such bound.
func AddBounded(l Limit, s State, cost uint64, now Time) (State, Verdict) {
	c := counterOf(l, now)
	mustCost(cost)
	settled := c.settle(l, s, now)
	if l.hasRate() {
		cost = min(cost, less(2*l.Quota, c.status(l, settled, now).Used))
	}
	return added(c, l, settled, cost, now)
}

func added(c counter, l Limit, settled State, cost uint64, now Time) (State, Verdict) {
	counted := c.add(l, settled, cost, now)
	v := verdict(c, l, counted, now)
	v.Allowed = v.Used <= l.Quota || l.Algorithm == Unlimited
	return counted, v
}

// Refund gives back cost units of a Take made at taken. It gives back at most the units that the window or bucket still
// counts, and nothing when that window has passed. To a token bucket and GCRA it gives back only what has not come back
// on its own since taken. That may be too little, if the bucket was full in between, but never too much. The units of
// one Take may be given back once, and only to a State that has counted them, under this Limit or one that it
// Continues. The caller is responsible for both. A state with nothing left in it becomes the zero State again, so an
// open window anchored at its first hit closes.
func Refund(l Limit, s State, cost uint64, taken, now Time) State {
	c := counterOf(l, now)
	mustCost(cost)
	mustTaken(taken, now)
	return c.refund(l, c.settle(l, s, now), cost, taken, now)
}

// StillCounts reports whether a Refund at now would give back any of the units taken at taken. A token bucket and GCRA
// do not know when they were charged: whatever is missing can be given back.
func StillCounts(l Limit, s State, taken, now Time) bool {
	c := counterOf(l, now)
	mustTaken(taken, now)
	return c.stillCounts(l, c.settle(l, s, now), taken, now)
}

// SetUsed sets the number of units used at now to exactly used. Fixed windows and calendars keep their open window, and
// open one if there is none. A tally keeps its end. A sliding window and a log remember one hit, at now. The count
// saturates as in Add. With used = 0 the result is the zero State: a key at rest.
func SetUsed(l Limit, s State, used uint64, now Time) State {
	c := counterOf(l, now)
	if used == 0 {
		return State{}
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

// ForgetAt returns the first instant from which the State is equivalent to the zero State, so that it may be dropped,
// or Forever if there is none.
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

// counterOf returns the implementation of a limit's algorithm. It panics if that, or now, is outside its range.
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
