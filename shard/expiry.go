package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A hold that nobody settled ends at its expiry, whenever a request next comes by: the counter is then brought to what
// it became at that instant. So expiry is a function of the record and the time, and needs no timer (SEMANTICS X5).

// expire ends the holds that have expired at now, in order, each at its own instant.
func (c *counter) expire(now limit.Time) {
	if c.extras == nil || len(c.extras.holds) == 0 || c.extras.holds[0].expires > now {
		return
	}
	c.forgetSums()
	due := 0
	for due < len(c.extras.holds) && c.extras.holds[due].expires <= now {
		due++
	}
	var remote []hold
	for i := range due {
		h := &c.extras.holds[i]
		if h.remote {
			remote = append(remote, *h)
			continue
		}
		c.release(h, h.onExpire == policy.OnExpireCancel, h.expires)
		if h.onExpire == policy.OnExpireCommit {
			c.violate(h.expires)
		}
	}
	c.extras.holds = c.extras.holds[due:]
	if remote != nil {
		c.extras.holds = append(remote, c.extras.holds...)
	}
}

// nextExpiry is the first instant after which expire has something to do; limit.Forever: there is none.
func (c *counter) nextExpiry() limit.Time {
	for i := range c.holds() {
		if h := &c.extras.holds[i]; !h.remote {
			return h.expires
		}
	}
	return limit.Forever
}

// lastExpiry is the instant at which the last open hold ends: 0 if none is open, limit.Forever if one does not expire.
func (c *counter) lastExpiry() (last limit.Time) {
	for i := range c.holds() {
		if c.extras.holds[i].remote {
			return limit.Forever
		}
		last = c.extras.holds[i].expires
	}
	return last
}

// future is a copy of the counter that can be brought to later instants without changing this one. It lacks the remote
// holds, with which nothing happens by itself.
func (c *counter) future() *counter {
	f := &counter{policy: c.policy, limits: slices.Clone(c.limits)}
	if c.extras == nil {
		return f
	}
	x := *c.extras
	isRemote := func(h hold) bool { return h.remote }
	if slices.ContainsFunc(x.holds, isRemote) {
		x.holds = slices.DeleteFunc(slices.Clone(x.holds), isRemote)
	}
	f.extras = &x
	return f
}
