package peer

import (
	"slices"
	"time"
)

// agreeWithin is how far the clocks of a majority may seem to differ: the 400 ms by which a new owner may shorten a
// window, plus the errors of two measurements (G4).
const agreeWithin = 400*time.Millisecond + roundTripMax

// Offset returns how far this machine's clock is ahead of the median clock of nodes; negative: behind. This node's own
// clock counts if the node is listed. ok is false without measurements of the last 5 s from a majority of nodes with
// clocks that agree: if only a good clock and a wrong one answer, it cannot be told which is which, and a value between
// them would move shard time. The error is at most half the round trip of a measurement. The round trip is at most 200
// ms, or 800 ms if none was faster.
func (p *HealthProbe) Offset(nodes []string) (ahead time.Duration, ok bool) {
	now, askers := p.config.Now(), p.askers()
	var clocks []time.Duration // ahead of ours
	for _, node := range nodes {
		if node == p.config.Node {
			clocks = append(clocks, 0)
		} else if a := askers[node]; a != nil {
			if clock, ok := a.clockAhead(now); ok {
				clocks = append(clocks, clock)
			}
		}
	}
	slices.Sort(clocks)
	if !agree(clocks, len(nodes)/2+1) {
		return 0, false
	}
	return -clocks[(len(clocks)-1)/2], true
}

// agree reports whether count of the sorted clocks lie close together. If these are a majority, the median is one of
// them or lies between two of them.
func agree(clocks []time.Duration, count int) bool {
	for first := 0; first+count <= len(clocks); first++ {
		if clocks[first+count-1]-clocks[first] <= agreeWithin {
			return true
		}
	}
	return false
}

// sample is one comparison of the node's clock with ours.
type sample struct {
	ahead     time.Duration // how far its clock is ahead of ours
	roundTrip time.Duration
	asked     time.Time // when the question left, by our clock
	at        time.Time // when the report came, by our clock; zero: there is no sample
}

const (
	// roundTripMax is the longest round trip of a good measurement. The error is at most half of it.
	roundTripMax = 200 * time.Millisecond
	// roundTripMost is the longest round trip of any measurement: one with an error of more than 400 ms could make a
	// new owner shorten windows by more than it may (G4).
	roundTripMost = 800 * time.Millisecond
	// clockMax is the largest offset that is reported.
	clockMax = 100 * 365 * 24 * time.Hour
	// stepMost is how far the wall and monotonic readings of our clock may diverge since the question: more is a clock
	// step.
	stepMost = 50 * time.Millisecond
)

// isFresh reports whether the sample is recent and our clock has not been set since, nor the machine suspended. In
// those cases the wall and the monotonic reading have advanced by different amounts.
func (s *sample) isFresh(now time.Time) bool {
	if s.at.IsZero() {
		return false
	}
	age, stepped := now.Sub(s.at), now.Round(0).Sub(s.asked.Round(0))-now.Sub(s.asked)
	return age >= 0 && age <= freshFor && stepped.Abs() <= stepMost
}

// clockAhead returns theirs minus ours, both in microseconds. The result is clamped, because theirs may be any value.
func clockAhead(theirs, ours int64) time.Duration {
	limit := clockMax.Microseconds()
	switch {
	case theirs > ours && (theirs-ours > limit || theirs-ours < 0):
		return clockMax
	case theirs < ours && (ours-theirs > limit || ours-theirs < 0):
		return -clockMax
	}
	return time.Duration(theirs-ours) * time.Microsecond
}

// clockAhead returns how far the node's clock is ahead of ours, by the best fresh measurement.
func (a *asker) clockAhead(now time.Time) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range []sample{a.quick, a.slow} {
		if s.isFresh(now) {
			return s.ahead, true
		}
	}
	return 0, false
}
