package shard

import (
	"math/bits"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// changed carries the state of the j-th limit over to other numbers, as the policy's OnChange says.
func (c *counter) changed(j int, new limit.Limit, now limit.Time) limit.State {
	old := &c.limits[j]
	if new.Algorithm == limit.Concurrency { // it counts the open holds and nothing else
		return limit.SetUsed(new, limit.State{}, c.heldSum(j).units, now)
	}
	s := limit.Convert(old.limit, old.state, new, now)
	how := c.onChange(old, new)
	if how == policy.AsIs {
		return s
	}
	before := limit.Status(old.limit, old.state, now)
	// A used bucket that is full stays full. A never-used one may hold less (Initial), and a denial may have said when it
	// would hold enough.
	if before.Used == 0 && new.Algorithm == limit.TokenBucket {
		return s
	}
	if how == policy.Additive {
		remaining := min(before.Remaining+new.Quota-min(old.limit.Quota, before.Remaining+new.Quota), new.Quota)
		return limit.SetUsed(new, s, new.Quota-remaining, now)
	}
	return limit.SetUsed(new, s, share(before.Used, new.Quota, old.limit.Quota), now) // policy.Proportional
}

// onChange returns how the state of a limit is carried over to other numbers. A policy that converts by the quota changes
// nothing if the quota stays the same, or if there is none. States that restart with a revision have done so already: see
// renew. Additive forgives a debt, so it too applies only to a revision; otherwise a caller that alternates between tiers
// would never be in debt.
func (c *counter) onChange(old *counted, new limit.Limit) policy.OnChange {
	//mutant:revision-does-not-begin-anew
	if c.policy == nil || c.policy.OnChange == policy.Restart || new.Algorithm == limit.Concurrency ||
		old.limit.Quota == new.Quota || old.limit.Quota == 0 || new.Quota == 0 ||
		c.policy.OnChange == policy.Additive && c.policy.Gives(old.name, &old.limit, c.override()) {
		return policy.AsIs
	}
	return c.policy.OnChange
}

// beginsAnew reports whether units taken under the old numbers can no longer be given back, because they were taken from
// another window or at another rate, or because the units differ. A concurrency limit counts the units of open holds and
// must get them back when the holds end, whatever the limit was before.
func (c *counter) beginsAnew(old *counted, new limit.Limit) bool {
	if new.Algorithm == limit.Concurrency {
		return false
	}
	return !new.Continues(&old.limit) || c.onChange(old, new) != policy.AsIs
}

// renew puts to rest the limits that restart with a revision of their policy: those counted under numbers that none of the
// policy's tiers gives them, with or without the key's override. It runs when the revision first meets the key. Its result
// is written even if the request counts nothing, so that the old usage does not reappear if the old numbers return.
func (b *batch) renew(c *counter, limits []policy.Limit) {
	since := c.beginning(b.at.Now)
	for i := range limits {
		l := &limits[i]
		j := c.limits.find(i, l.Name)
		if j < 0 || c.limits[j].limit.Equal(&l.Limit) || l.Algorithm == limit.Concurrency || c.limits[j].atRest(b.at.Now) ||
			c.policy.Gives(l.Name, &c.limits[j].limit, c.override()) {
			continue
		}
		c.limits[j].state = limit.State{}
		c.restart(&c.limits[j], since)
		b.touch(c)
	}
}

// endOverride removes an expired override, for a request with a tier. The end of an override is not a revision: units used
// under its numbers stay used, even if a revision would restart the count or forgive the excess over the quota.
func (b *batch) endOverride(c *counter, tier string) {
	if c.override() == nil || inForce(c.override(), b.at.Now) {
		return
	}
	if ofRevision(c.policy.OnChange) { //mutant:ended-override-forgives
		limits, known := c.policy.Resolve(tier)
		if !known {
			limits, _ = c.policy.Resolve("")
		}
		c.carry(limits, b.at.Now)
		b.touch(c)
	}
	c.extras.override = nil
}

// ofRevision reports whether usage is treated differently when a revision changes numbers than when an override does.
func ofRevision(how policy.OnChange) bool { return how == policy.Restart || how == policy.Additive }

// carry converts the limits of a policy that a counter contains to the policy's numbers.
func (c *counter) carry(limits []policy.Limit, now limit.Time) {
	for i := range limits {
		if l := &limits[i]; c.changing(i, l, now) {
			c.set(i, l, c.at(i, l, now), now)
		}
	}
}

// override returns the key's override, or nil.
func (c *counter) override() *policy.Override {
	if c.extras == nil {
		return nil
	}
	return c.extras.override
}

// share returns used * quota / of, rounded up, at most 2^63.
func share(used, quota, of uint64) uint64 {
	high, low := bits.Mul64(used, quota)
	if high >= of {
		return 1 << 63
	}
	n, rest := bits.Div64(high, low, of)
	if rest > 0 {
		n++
	}
	return min(n, 1<<63)
}
