package limit

// calendar counts units in one period of a Cycle after the other. With months, and with days through the change of the
// clocks, no two need be of one length, so the State keeps both ends of the open one.
//
// State: T is the end of the open period, an absolute instant: no other period begins before it, whatever the numbers of
// the limit are by then, and whatever the time zone's rules. B is its beginning and A what it counted.
type calendar struct{ fixedWindow }

func (calendar) add(l Limit, s State, units uint64, now Time) State {
	if s.T == 0 {
		start, end := l.Cycle.period(now)
		s.T, s.B = end, uint64(start)
	}
	s.A = sum(s.A, units)
	return s
}

func (calendar) status(l Limit, s State, now Time) Verdict {
	if s.T != 0 {
		return Verdict{Used: s.A, WindowStart: Time(s.B), ResetAt: s.T}
	}
	start, _ := l.Cycle.period(now)
	return Verdict{WindowStart: start, ResetAt: now}
}
