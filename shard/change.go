package shard

import (
	"math/bits"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// changed carries the state of the j-th limit over to other numbers, as the policy's OnChange says.
func (c *counter) changed(j int, new limit.Limit, now limit.Time) limit.State {
	old := &c.limits[j]
	if new.Algorithm == limit.Concurrency { // what holds have taken counts, and nothing else
		return limit.SetUsed(new, limit.State{}, c.heldSum(j).units, now)
	}
	s := limit.Convert(old.limit, old.state, new, now)
	if !c.beginsAnew(old.limit, new) {
		return s
	}
	if c.policy.OnChange == policy.Restart {
		return limit.State{}
	}
	before := limit.Status(old.limit, old.state, now)
	// A bucket that was used and is full stays full. One never used may hold less (Initial), and a denial may have said when
	// there would be enough.
	if before.Used == 0 && new.Algorithm == limit.TokenBucket {
		return s
	}
	if c.policy.OnChange == policy.Additive {
		remaining := min(before.Remaining+new.Quota-min(old.limit.Quota, before.Remaining+new.Quota), new.Quota)
		return limit.SetUsed(new, s, new.Quota-remaining, now)
	}
	return limit.SetUsed(new, s, share(before.Used, new.Quota, old.limit.Quota), now) // policy.Proportional
}

// beginsAnew reports whether what was taken under the old numbers is given back no more. A policy that converts
// by the quota has nothing to do when that is the same, or when one of the two has none. A concurrency limit counts what open
// holds have taken, and must have it back when they end, whatever the policy says of changes.
func (c *counter) beginsAnew(old, new limit.Limit) bool {
	if c.policy == nil || new.Algorithm == limit.Concurrency {
		return false
	}
	switch c.policy.OnChange {
	case policy.Restart:
		return true
	case policy.Proportional, policy.Additive:
		return old.Quota != new.Quota && old.Algorithm != limit.Unlimited && new.Algorithm != limit.Unlimited
	}
	return false
}

// share is used * quota / of, rounded up, at most 2^63.
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

// newestTaken is when the newest open hold was taken. A limit that is new in the counter, or was forgotten at rest,
// counts none of the open ones.
func (c *counter) newestTaken() (newest limit.Time) {
	for i := range c.holds() {
		newest = max(newest, c.extras.holds[i].taken)
	}
	return newest
}
