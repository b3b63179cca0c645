package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// heldSum is the sum of the open holds that one limit has counted, whether or not their windows have ended. So the held
// units are known immediately even on a key with thousands of holds, while a batch opens and settles many of them.
type heldSum struct {
	units  uint64
	oldest limit.Time // lower bound of the instants at which they were taken
}

// held returns how many units of the i-th limit of a policy belong to open holds.
func (c *counter) held(i int, l *policy.Limit, now limit.Time) uint64 {
	j := c.limits.find(i, l.Name)
	if j < 0 || !c.limits[j].limit.Equal(&l.Limit) && c.beginsAnew(&c.limits[j], l.Limit) {
		return 0
	}
	if c.limits[j].limit.Equal(&l.Limit) {
		return c.heldBy(j, now)
	}
	return c.extras.heldOf(&counted{name: l.Name, limit: l.Limit, state: c.at(i, l, now), since: c.limits[j].since},
		now)
}

// heldBy returns how many units of the j-th limit's state belong to open holds.
func (c *counter) heldBy(j int, now limit.Time) uint64 {
	l := &c.limits[j]
	if sum := c.heldSum(j); sum.units == 0 {
		return 0
	} else if l.countsLater() && limit.StillCounts(l.limit, l.state, sum.oldest, now) {
		return sum.units
	}
	return c.extras.heldOf(l, now)
}

// heldOf is heldBy for a limit with a state that differs from the counter's: it examines every hold.
func (x *counterExtras) heldOf(l *counted, now limit.Time) (held uint64) {
	for i := range x.openHolds() {
		if h := &x.holds[i]; l.counts(h) && limit.StillCounts(l.limit, l.state, h.taken, now) {
			held += h.cost
		}
	}
	return held
}

// countsLater reports whether the limit, if it still counts units of one instant, also counts all later ones. A sliding
// limit does not: it may have given back all units of a later instant.
func (l *counted) countsLater() bool {
	switch l.limit.Algorithm {
	case limit.SlidingWindow, limit.SlidingBuckets, limit.SlidingLog:
		return false
	}
	return true
}

// heldSum returns the j-th limit's sum, computed on first use.
func (c *counter) heldSum(j int) heldSum {
	if len(c.extras.openHolds()) == 0 {
		return heldSum{}
	}
	x := c.extras
	if x.sums == nil {
		x.sums = make([]heldSum, len(c.limits))
		for i := range c.limits {
			x.sums[i] = x.addUp(&c.limits[i])
		}
	}
	return x.sums[j]
}

func (x *counterExtras) addUp(l *counted) heldSum {
	sum := heldSum{oldest: math.MaxInt64}
	for i := range x.holds {
		if h := &x.holds[i]; l.counts(h) {
			sum.units += h.cost
			sum.oldest = min(sum.oldest, h.taken)
		}
	}
	return sum
}

// forgetSums must be called when anything other than addHold or removeHold changes which holds a limit has counted, and
// when limits come or go.
func (x *counterExtras) forgetSums() {
	if x != nil {
		x.sums = nil
	}
}
