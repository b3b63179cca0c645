package limit

import "math"

// Bits of B in a State that may contain a Tally: see unlimited.
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

// tallyValue returns the value of a State with or without a Tally. A distance that Tally.State never writes saturates:
// DecodeState accepts it.
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
