package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// changed carries the state of the j-th limit over to other numbers, according to the policy's OnChange.
func (c *counter) changed(j int, new limit.Limit, at limit.Time) limit.State {
	old := &c.limits[j]
	if new.Algorithm == limit.Concurrency { // it counts the open holds and nothing else
		return limit.SetUsed(new, limit.State{}, c.heldSum(j).units, at)
	}
	s := limit.Convert(old.limit, old.state, new, at)
	switch c.onChange(old, new) {
	case policy.Proportional:
		return limit.Scale(new, s, new.Quota, old.limit.Quota, at)
	case policy.Additive:
		before := limit.Status(old.limit, old.state, at)
		// A used bucket that is full stays full. A never-used one may hold less (Initial).
		if before.Used == 0 && new.Algorithm == limit.TokenBucket {
			return s
		}
		remaining := min(before.Remaining+new.Quota-min(old.limit.Quota, before.Remaining+new.Quota), new.Quota)
		return limit.SetUsed(new, s, new.Quota-remaining, at)
	}
	return s
}

// onChange returns how the state of a limit is carried over to other numbers. A policy that converts by the quota
// changes nothing if the quota stays the same, or if there is none. States that restart with a revision have done so
// already: see dueChanges. Additive forgives a debt, so it too applies only to a revision; otherwise a caller that
// alternates between tiers would never be in debt.
func (c *counter) onChange(old *counted, new limit.Limit) policy.OnChange {
	//mutant:revision-does-not-begin-anew
	if c.policy.OnChange == policy.Restart || new.Algorithm == limit.Concurrency ||
		old.limit.Quota == new.Quota || old.limit.Quota == 0 || new.Quota == 0 {
		return policy.AsIs
	}
	ofRevision := !c.policy.Gives(old.name, &old.limit, c.override()) //mutant:ended-override-forgives
	if c.policy.OnChange == policy.Additive && !ofRevision {
		return policy.AsIs
	}
	return c.policy.OnChange
}

// beginsAnew reports whether units taken under the old numbers can no longer be given back, because they were taken
// from another window or at another rate, or because the units differ. A concurrency limit counts the units of open
// holds and must get them back when the holds end, regardless of its earlier numbers.
func (c *counter) beginsAnew(old *counted, new limit.Limit) bool {
	if new.Algorithm == limit.Concurrency {
		return false
	}
	return !new.Continues(&old.limit) || c.onChange(old, new) != policy.AsIs
}

// carry converts the limits of a policy that a counter contains to the policy's numbers, and reports whether there were
// any.
func (c *counter) carry(limits []policy.Limit, at limit.Time) (any bool) {
	for i := range limits {
		if l := &limits[i]; c.changing(i, l, at) {
			c.set(i, l, c.at(i, l, at), at)
			any = true
		}
	}
	return any
}
