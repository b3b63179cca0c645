package limit

import "math"

// unlimited counts as lifetime does, and denies nothing. Its Quota is 0, so its Remaining is also 0 and means nothing.
//
// Its State may contain a Tally: an integer, possibly below zero, that exists until it ends, even while it is 0. Units
// taken from a tally are not given back, since a tally may have ended and begun again in between.
//
// State: A is the count, and B is 0. For a tally, T is the first instant at which it no longer exists, or 0 if it does
// not end on its own. B contains tallyThere, and tallyBelow if the tally is below zero. The distance from zero is A,
// plus 2^62 for each tallyStep in B (at most two).
type unlimited struct{}

const (
	tallyThere = 1
	tallyBelow = 2
	tallyStep  = 4
)

// Tally is a counter that can go below zero and can end.
type Tally struct {
	Value  int64
	EndsAt Time // first instant at which the tally no longer exists; 0 if it does not end on its own
}

// TallyOf reads the State of an unlimited limit at now. A count without a tally is returned as a Tally too. known is
// false if there is neither.
func TallyOf(s State, now Time) (t Tally, known bool) {
	s = unlimited{}.settle(Limit{}, s, now)
	if s.A == 0 && s.B&tallyThere == 0 {
		return Tally{}, false
	}
	return Tally{Value: tallyValue(s), EndsAt: s.T}, true
}

// State returns the State of an unlimited limit that contains the tally.
func (t Tally) State() State {
	s := State{T: t.EndsAt, B: tallyThere}
	distance := uint64(t.Value)
	if t.Value < 0 {
		distance = -distance
		s.B |= tallyBelow
	}
	s.A = distance % maxUnits
	s.B += distance / maxUnits * tallyStep
	return s
}

// IsTally reports whether the state of a limit contains a Tally.
func IsTally(l Limit, s State) bool { return l.Algorithm == Unlimited && s.B&tallyThere != 0 }

// tallyValue accepts every State that can be decoded.
func tallyValue(s State) int64 {
	if s.B&tallyThere == 0 {
		return int64(s.A)
	}
	distance := s.A + min(s.B/tallyStep, 2)*maxUnits
	if s.B&tallyBelow != 0 {
		return -int64(min(distance-1, math.MaxInt64)) - 1
	}
	return int64(min(distance, math.MaxInt64))
}

func (unlimited) settle(_ Limit, s State, now Time) State {
	if s.T != 0 && now >= s.T {
		return State{}
	}
	return s
}

func (unlimited) wait(Limit, State, uint64, Time) Span { return 0 }

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
