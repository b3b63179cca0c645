package limit

import (
	"cmp"
	"slices"
)

// slidingLog remembers every hit: a hit at t counts while now < t + Period. It is exact for every window of one Period,
// wherever the window begins. The price is memory: a Point for each instant that had a hit.
//
// State: T is the newest instant, A its units, Points the instants before it, oldest first, and B the total units. So a
// second hit at one instant is only an addition, and Points are copied once per instant. Expired Points are cut off
// when a hit is counted. A denial leaves them in place, and the next request skips them again. Their units are fewer
// than the denied cost, or else the request would have fitted.
type slidingLog struct{}

// maxPoints bounds the log when Add exceeds the quota. Within the quota a log has fewer Points.
const maxPoints = MaxLogQuota

func (slidingLog) settle(l Limit, s State, now Time) State {
	if s.T+Time(l.Period) <= now {
		return State{}
	}
	expired := 0
	for expired < len(s.Points) && s.Points[expired].At+Time(l.Period) <= now {
		s.B = less(s.B, s.Points[expired].Units)
		expired++
	}
	s.Points = s.Points[expired:]
	return s
}

func (slidingLog) wait(l Limit, s State, cost uint64, now Time) Span {
	if s.B+cost <= l.Quota {
		return 0
	}
	over := s.B + cost - l.Quota
	for _, p := range s.Points {
		if p.Units >= over {
			return Span(p.At + Time(l.Period) - now)
		}
		over -= p.Units
	}
	return Span(s.T + Time(l.Period) - now)
}

func (slidingLog) add(_ Limit, s State, units uint64, now Time) State {
	if s.B == 0 {
		return State{T: now, A: units, B: units}
	}
	// All instants together saturate: what is written can be read.
	if units = min(units, maxUnits-s.B); units == 0 { //mutant:log-saturates-at-each-instant
		return s
	}
	if now > s.T {
		s.Points = appended(s.Points, Point{At: s.T, Units: s.A})
		s.T, s.A = now, 0
	}
	s.A += units
	s.B += units
	return s
}

func (slidingLog) refund(_ Limit, s State, units uint64, taken, _ Time) State {
	if taken == s.T {
		units = min(units, s.A)
		s.A -= units
		s.B = less(s.B, units)
		return withoutEmpty(s)
	}
	i, found := pointAt(s, taken)
	if !found {
		return s
	}
	units = min(units, s.Points[i].Units)
	s.B = less(s.B, units)
	s.Points = slices.Clone(s.Points)
	s.Points[i].Units -= units
	if s.Points[i].Units == 0 {
		s.Points = slices.Delete(s.Points, i, i+1)
	}
	return s
}

func (slidingLog) stillCounts(_ Limit, s State, taken, _ Time) bool {
	if taken == s.T {
		return s.A > 0
	}
	_, found := pointAt(s, taken)
	return found
}

func (c slidingLog) status(l Limit, s State, now Time) Verdict {
	return Verdict{Used: s.B, ResetAt: max(now, c.forgetAt(l, s))}
}

func (slidingLog) forgetAt(l Limit, s State) Time {
	if s.B == 0 {
		return 0
	}
	return s.T + Time(l.Period)
}

func (slidingLog) full(l Limit, found State, f Full) State {
	return oneHit(max(l.Quota, found.B), f.end())
}

func oneHit(units uint64, at Time) State { return State{T: at, A: units, B: units} }

func pointAt(s State, at Time) (int, bool) {
	return slices.BinarySearchFunc(s.Points, at, func(p Point, at Time) int { return cmp.Compare(p.At, at) })
}

// appended returns a copy with p at its end: other State values may share the array. At maxPoints the two oldest Points
// become one, which counts as long as the younger would.
func appended(points []Point, p Point) []Point {
	var oldest uint64
	if len(points) >= maxPoints {
		oldest, points = points[0].Units, points[1:]
	}
	grown := make([]Point, len(points)+1)
	copy(grown, points)
	grown[len(points)] = p
	grown[0].Units = sum(grown[0].Units, oldest)
	return grown
}

// withoutEmpty makes the newest Point the newest instant again if that instant has no units left.
func withoutEmpty(s State) State {
	if s.A > 0 {
		return s
	}
	last := len(s.Points) - 1
	if last < 0 {
		return State{}
	}
	s.T, s.A = s.Points[last].At, s.Points[last].Units
	s.Points = s.Points[:last]
	return s
}
