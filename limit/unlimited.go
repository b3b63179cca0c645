package limit

import "math"

// unlimited counts as lifetime does, and denies nothing. Its Quota is 0, so its Remaining is 0 too and means nothing.
//
// A Tally may be kept in its State: an integer, which may be below zero, that is there until it ends, also when it is 0.
// What was taken of a tally is not given back: nobody can tell in which of its lives that was.
//
// State: A is what was counted, and B is 0. Of a tally T is the first instant at which it is not there any more, 0 if it
// does not end by itself; B has tallyThere, and tallyBelow when it is below zero; its distance from zero is A, and 2^62
// more for each tallyStep in B, of which there are two at most.
type unlimited struct{}

const (
	tallyThere = 1
	tallyBelow = 2
	tallyStep  = 4
)

// Tally is a counter that may go below zero, and may end.
type Tally struct {
	Value  int64
	EndsAt Time // the first instant at which it is not there any more; 0: it does not end by itself
}

// TallyOf reads the State of an unlimited limit at now. What was counted without a tally reads as one too; known is false
// when there is neither.
func TallyOf(s State, now Time) (t Tally, known bool) {
	s = unlimited{}.settle(Limit{}, s, now)
	if s.A == 0 && s.B&tallyThere == 0 {
		return Tally{}, false
	}
	return Tally{Value: tallyValue(s), EndsAt: s.T}, true
}

// State is the one of an unlimited limit that the tally is kept in.
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

// IsTally reports whether a Tally is kept in the state of a limit.
func IsTally(l Limit, s State) bool { return l.Algorithm == Unlimited && s.B&tallyThere != 0 }

// tallyValue must bear every State that can be decoded.
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

func (unlimited) forgetAt(_ Limit, s State) Time {
	switch {
	case s.A == 0 && s.B&tallyThere == 0:
		return 0
	case s.T != 0:
		return s.T
	}
	return Forever
}
