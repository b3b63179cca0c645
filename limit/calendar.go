package limit

// calendar counts units in consecutive periods of a Cycle. Periods differ in length, because months do and because days
// do when the clocks change, so the State keeps both ends of the open period.
//
// State: T is the end of the open period, as an absolute instant. No other period begins before T, even if the numbers
// of the limit or the rules of the time zone have changed since. B is the beginning of the period and A is its count.
type calendar struct{ fixedWindow }

func (calendar) add(l Limit, s State, units uint64, now Time) State {
	if s.T == 0 {
		start, end := l.Cycle.Period(now)
		s.T, s.B = end, uint64(start)
	}
	s.A = sum(s.A, units)
	return s
}

func (calendar) full(l Limit, found State, f Full) State {
	start, end := l.Cycle.Period(f.end())
	return fuller(State{T: end, A: l.Quota, B: uint64(start)}, found)
}

func (calendar) status(l Limit, s State, now Time) Verdict {
	if s.T != 0 {
		return Verdict{Used: s.A, WindowStart: Time(s.B), ResetAt: s.T}
	}
	start, _ := l.Cycle.Period(now)
	return Verdict{WindowStart: start, ResetAt: now}
}
