package limit

// concurrency counts the units that are held at one time. A hold gives back its units when it ends, however it ends.
// The caller keeps the holds, so this package counts exactly as lifetime does. A denial's wait is therefore Never; the
// caller can give a better one if it knows when the next hold expires.
//
// State: A is the count. Until T, B further units count as held: after a restore, those of holds that are not known
// (Full).
type concurrency struct{ lifetime }

func (concurrency) settle(_ Limit, s State, now Time) State {
	if now >= s.T {
		return State{A: s.A}
	}
	return s
}

func (concurrency) wait(l Limit, s State, cost uint64, now Time) Span {
	switch {
	case s.A+s.B+cost <= l.Quota:
		return 0
	case s.A+cost <= l.Quota:
		return Span(s.T - now)
	}
	return Never
}

func (concurrency) add(_ Limit, s State, units uint64, _ Time) State {
	s.A = sum(s.A, units)
	return s
}

func (concurrency) refund(_ Limit, s State, units uint64, _, _ Time) State {
	s.A = less(s.A, units)
	return s
}

func (concurrency) status(_ Limit, s State, now Time) Verdict {
	switch {
	case s.A > 0:
		return Verdict{Used: sum(s.A, s.B)}
	case s.B > 0:
		return Verdict{Used: s.B, ResetAt: s.T}
	}
	return Verdict{ResetAt: now}
}

func (concurrency) full(l Limit, found State, f Full) State {
	return State{T: f.At + Time(f.Hold), A: found.A, B: l.Quota}
}

func (concurrency) forgetAt(_ Limit, s State) Time {
	if s.A > 0 {
		return Forever
	}
	return s.T
}
