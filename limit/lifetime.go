package limit

// lifetime counts forever: only a Refund, or a reset to the zero State, makes room again.
//
// State: A is the count.
type lifetime struct{}

func (lifetime) settle(_ Limit, s State, _ Time) State { return s }

func (lifetime) wait(l Limit, s State, cost uint64, _ Time) Span {
	if s.A+cost <= l.Quota {
		return 0
	}
	return Never
}

func (lifetime) add(_ Limit, s State, units uint64, _ Time) State {
	return State{A: sum(s.A, units)}
}

func (lifetime) refund(_ Limit, s State, units uint64, _, _ Time) State {
	return State{A: less(s.A, units)}
}

func (lifetime) stillCounts(_ Limit, s State, _, _ Time) bool { return s.A > 0 }

func (lifetime) status(_ Limit, s State, now Time) Verdict {
	if s.A == 0 {
		return Verdict{ResetAt: now}
	}
	return Verdict{Used: s.A}
}

func (lifetime) full(_ Limit, found State, _ Full) State { return found }

func (lifetime) forgetAt(_ Limit, s State) Time {
	if s.A == 0 {
		return 0
	}
	return Forever
}
