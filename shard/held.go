package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
)

// heldSum adds up the open holds that one limit has counted, whether or not their windows have ended. So what is held is
// known at once also on a key with thousands of holds, of which a batch may open and settle many.
type heldSum struct {
	units  uint64
	oldest limit.Time // none of them was taken earlier
}

// heldBy is how many units of the j-th limit's state are those of open holds.
func (c *counter) heldBy(j int, now limit.Time) uint64 {
	l := &c.limits[j]
	if sum := c.heldSum(j); sum.units == 0 {
		return 0
	} else if l.countsLater() && limit.StillCounts(l.limit, l.state, sum.oldest, now) {
		return sum.units
	}
	return c.heldOf(l, now)
}

// heldOf is heldBy for a limit that is not in the counter as it is: it looks at every hold.
func (c *counter) heldOf(l *counted, now limit.Time) (held uint64) {
	for i := range c.holds() {
		if h := &c.extras.holds[i]; l.counts(h) && limit.StillCounts(l.limit, l.state, h.taken, now) {
			held += h.cost
		}
	}
	return held
}

// countsLater reports whether the limit still counts everything that was taken later than something that it still counts.
// A sliding one that gave back what was taken at an instant has nothing of that instant left.
func (l *counted) countsLater() bool {
	switch l.limit.Algorithm {
	case limit.SlidingWindow, limit.SlidingBuckets, limit.SlidingLog:
		return false
	}
	return true
}

// heldSum is the j-th limit's, added up if it is not yet.
func (c *counter) heldSum(j int) heldSum {
	if len(c.holds()) == 0 {
		return heldSum{}
	}
	x := c.extras
	if x.sums == nil {
		x.sums = make([]heldSum, len(c.limits))
		for i := range c.limits {
			x.sums[i] = c.addUp(&c.limits[i])
		}
	}
	return x.sums[j]
}

func (c *counter) addUp(l *counted) heldSum {
	sum := heldSum{oldest: math.MaxInt64}
	for i := range c.extras.holds {
		if h := &c.extras.holds[i]; l.counts(h) {
			sum.units += h.cost
			sum.oldest = min(sum.oldest, h.taken)
		}
	}
	return sum
}

// forgetSums must be called when something else than addHold and removeHold changes which hold a limit has counted, and
// when limits come or go.
func (c *counter) forgetSums() {
	if c.extras != nil {
		c.extras.sums = nil
	}
}
