package limit

// unlimited counts as lifetime does, and denies nothing. Its Quota is 0, so its Remaining is also 0 and means nothing.
//
// Its State may contain a Tally: an integer, possibly below zero, that exists until it ends, even while it is 0. Units
// taken from a tally are not given back, since a tally may have ended and begun again in between.
//
// State: A is the count, and B is 0. For a tally, T is the first instant at which it no longer exists, or 0 if it does
// not end on its own. B contains tallyThere, and tallyBelow if the tally is below zero. The distance from zero is A,
// plus 2^62 for each tallyStep in B (at most two).
type unlimited struct{}

func (unlimited) settle(_ Limit, s State, now Time) State {
	if s.T != 0 && now >= s.T {
		return State{}
	}
	return s
}

func (unlimited) wait(Limit, State, uint64, Time) Span { return 0 }

// add saturates at 2^62. It leaves a tally that was set above that as it is.
func (unlimited) add(_ Limit, s State, units uint64, _ Time) State {
	if s.B&tallyThere == 0 {
		return State{A: sum(s.A, units)}
	}
	t := Tally{Value: tallyValue(s), EndsAt: s.T}
	if t.Value < maxUnits {
		t.Value = min(t.Value+int64(units), maxUnits)
	}
	return t.State()
}

func (unlimited) refund(_ Limit, s State, units uint64, _, _ Time) State {
	if s.B&tallyThere != 0 {
		return s
	}
	return State{A: less(s.A, units)}
}

func (unlimited) stillCounts(_ Limit, s State, _, _ Time) bool { return s.A > 0 && s.B&tallyThere == 0 }

func (unlimited) status(_ Limit, s State, now Time) Verdict {
	if s.A == 0 && s.B&tallyThere == 0 {
		return Verdict{ResetAt: now}
	}
	return Verdict{Used: uint64(max(0, tallyValue(s))), ResetAt: s.T}
}

func (unlimited) full(_ Limit, found State, _ Full) State { return found }

func (unlimited) forgetAt(_ Limit, s State) Time {
	switch {
	case s.A == 0 && s.B&tallyThere == 0:
		return 0
	case s.T != 0:
		return s.T
	}
	return Forever
}
