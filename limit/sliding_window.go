package limit

// slidingWindow weighs two windows aligned to the Unix epoch: the count of the current one, and the count of the
// previous one times the share of it that a window of one Period ending now still covers. A request is admitted iff
//
//	current + previous * (Period - elapsed) / Period + cost <= Quota
//
// as an exact fraction. (The approximation is Cloudflare's, 2017: previous hits count as if evenly spread.)
//
// State: T is the end of the current window, A its count, B the count of the previous window.
type slidingWindow struct{}

func (slidingWindow) settle(l Limit, s State, now Time) State {
	if now >= s.T {
		if s.A == 0 || now >= s.T+Time(l.Period) {
			return State{}
		}
		return State{T: s.T + Time(l.Period), B: s.A}
	}
	return s
}

func (slidingWindow) wait(l Limit, s State, cost uint64, now Time) Span {
	period := uint64(l.Period)
	if s.A+cost > l.Quota {
		// It fits once the current window has become the previous one and enough of it has passed.
		covered := mulDiv(l.Quota-cost, period, s.A, period)
		return Span(s.T + Time(period) - Time(covered) - now)
	}
	room := l.Quota - s.A - cost
	if !heavier(s.B, left(l, s, now), room, period) {
		return 0
	}
	return Span(s.T - Time(mulDiv(room, period, s.B, period)) - now)
}

func (slidingWindow) add(l Limit, s State, units uint64, now Time) State {
	if s.T == 0 {
		s.T = floor(now, l.Period) + Time(l.Period)
	}
	s.A = sum(s.A, units)
	return s
}

func (slidingWindow) refund(l Limit, s State, units uint64, taken, _ Time) State {
	switch start := s.T - Time(l.Period); {
	case taken >= start:
		s.A = less(s.A, units)
	case taken >= start-Time(l.Period):
		s.B = less(s.B, units)
	}
	if s.A == 0 && s.B == 0 {
		return State{}
	}
	return s
}

func (slidingWindow) stillCounts(l Limit, s State, taken, _ Time) bool {
	start := s.T - Time(l.Period)
	if taken >= start {
		return s.A > 0
	}
	return s.B > 0 && taken >= start-Time(l.Period)
}

func (c slidingWindow) status(l Limit, s State, now Time) Verdict {
	used := sum(s.A, mulDivUp(s.B, left(l, s, now), uint64(l.Period), maxUnits))
	return Verdict{Used: used, ResetAt: max(now, c.forgetAt(l, s))}
}

func (slidingWindow) forgetAt(l Limit, s State) Time {
	if s.A == 0 {
		return s.T
	}
	return s.T + Time(l.Period)
}

// full needs no count of the previous window: the current one alone denies everything.
func (slidingWindow) full(l Limit, found State, f Full) State {
	return State{T: floor(f.end(), l.Period) + Time(l.Period), A: max(l.Quota, found.A)}
}

// left returns Period - elapsed, the part of the previous window that still counts.
func left(l Limit, s State, now Time) uint64 {
	if s.T == 0 {
		return 0
	}
	return uint64(min(Span(s.T-now), l.Period))
}
