package limit

// fixedWindow counts units in consecutive windows. Aligned to the Unix epoch, the window of an instant is floor(now /
// Period). Anchored at the first hit, a window lasts one Period from the first hit after the last window.
//
// State: T is the end of the open window, as an absolute instant. No other window begins before T, even if the numbers
// of the limit have changed since. A is the count. B is the beginning of the window if it is not one Period before T,
// because the window was opened under other numbers; else 0.
type fixedWindow struct{}

func (fixedWindow) settle(_ Limit, s State, now Time) State {
	if now >= s.T {
		return State{}
	}
	return s
}

func (fixedWindow) wait(l Limit, s State, cost uint64, now Time) Span {
	if s.A+cost <= l.Quota {
		return 0
	}
	return Span(s.T - now)
}

func (fixedWindow) add(l Limit, s State, units uint64, now Time) State {
	if s.T == 0 {
		s.T = windowEnd(l, now)
	}
	s.A = sum(s.A, units)
	return s
}

func (fixedWindow) refund(l Limit, s State, units uint64, taken, now Time) State {
	if taken < windowStart(l, s, now) { //mutant:refund-reaches-a-later-window
		return s
	}
	s.A = less(s.A, units)
	if s.A == 0 {
		return State{}
	}
	return s
}

func (fixedWindow) stillCounts(l Limit, s State, taken, now Time) bool {
	return s.A > 0 && taken >= windowStart(l, s, now)
}

func (fixedWindow) status(l Limit, s State, now Time) Verdict {
	switch {
	case s.T != 0:
		return Verdict{Used: s.A, WindowStart: windowStart(l, s, now), ResetAt: s.T}
	case l.Algorithm == FixedWindow:
		return Verdict{WindowStart: floor(now, l.Period), ResetAt: now}
	}
	return Verdict{ResetAt: now}
}

func (fixedWindow) forgetAt(_ Limit, s State) Time { return s.T }

func (fixedWindow) full(l Limit, found State, f Full) State {
	return fuller(State{T: windowEnd(l, f.end()), A: l.Quota}, found)
}

// fuller makes a full window last as long as one that was opened under other numbers, and keeps units above the quota.
func fuller(s, found State) State {
	if found.T > s.T {
		s.T, s.B = found.T, found.B
	}
	s.A = max(s.A, found.A)
	return s
}

// windowEnd returns the end of a window that opens at now.
func windowEnd(l Limit, now Time) Time {
	if l.Algorithm == FixedWindowFirstHit {
		return now + Time(l.Period)
	}
	return floor(now, l.Period) + Time(l.Period)
}

// windowStart returns the beginning of an open window. Records of earlier versions do not contain the beginning of a
// window that was opened under other numbers; now is then its upper bound.
func windowStart(l Limit, s State, now Time) Time {
	if s.B != 0 || l.Algorithm == Calendar {
		return Time(s.B)
	}
	return max(0, min(s.T-Time(l.Period), now))
}

// WindowEnd returns the end of the window or period in which a unit that is counted at now counts, or Forever for a
// limit with units that do not end together.
func WindowEnd(l Limit, s State, now Time) Time {
	if !l.hasWindow() {
		return Forever
	}
	c := counterOf(l, now)
	return c.add(l, c.settle(l, s, now), 1, now).T
}

// floor returns the last multiple of span at or before now.
func floor(now Time, span Span) Time { return now - now%Time(span) }
