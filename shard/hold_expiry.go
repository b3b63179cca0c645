package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// An unsettled hold ends at its expiry. The next request for the key brings the counter to the state that it had at
// that instant. So expiry is a function of the record and the time, and needs no timer (X5).

// expire ends the holds that have expired at now, in order, each at its own instant.
func (c *counter) expire(now limit.Time) {
	if c.extras == nil || len(c.extras.holds) == 0 || c.extras.holds[0].expires > now {
		return
	}
	c.extras.forgetSums()
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
		if h.lease {
			c.extras.leasedSum -= h.cost
			//mutant:dead-holder-spent-nothing //mutant:lease-counted-when-noticed //mutant:dead-node-spent-nothing
			c.spendLease(h.cost, h.expires)
			continue
		}
		back := h.onExpire == policy.OnExpireCancel
		c.limits.release(h, back, h.expires)
		if back {
			//mutant:expiry-credits-nothing //mutant:expiry-credits-when-noticed
			c.meters.giveBack(c, h.cost, h.taken, h.expires)
		}
		if h.onExpire == policy.OnExpireCommit {
			c.violate(h.expires) //mutant:violation-when-noticed
		}
	}
	c.extras.holds = c.extras.holds[due:]
	if remote != nil {
		c.extras.holds = append(remote, c.extras.holds...)
	}
}

// nextExpiry returns the next instant at which expire has something to do, or limit.Forever.
func (x *counterExtras) nextExpiry() limit.Time {
	for i := range x.openHolds() {
		if h := &x.holds[i]; !h.remote {
			return h.expires
		}
	}
	return limit.Forever
}

// lastExpiry returns the instant at which the last open hold ends: 0 if none is open, limit.Forever if one does not
// expire.
func (x *counterExtras) lastExpiry() (last limit.Time) {
	for i := range x.openHolds() {
		if x.holds[i].remote {
			return limit.Forever
		}
		last = x.holds[i].expires
	}
	return last
}

// verdictWithin is how long it usually takes, at most, until a leg hears from home that a hold has ended.
const verdictWithin = limit.Span(100e3)

// future returns a copy of the counter that can be moved to later instants without changing this one. In it a remote
// hold ends when home is expected to end it, or soon if that is overdue. A remote hold without an expected end is left
// out, since nothing happens to it on its own.
func (c *counter) future(now limit.Time) *counter {
	f := &counter{key: c.key, policy: c.policy, limits: slices.Clone(c.limits), mark: c.mark,
		ladderKnown: c.ladderKnown}
	if c.extras == nil {
		return f
	}
	x := *c.extras
	if slices.ContainsFunc(x.holds, func(h hold) bool { return h.remote }) {
		x.holds = slices.DeleteFunc(slices.Clone(x.holds), func(h hold) bool {
			return h.remote && h.expires == limit.MaxTime
		})
		for i := range x.holds {
			if h := &x.holds[i]; h.remote {
				h.remote = false
				if h.expires <= now {
					h.expires = now + limit.Time(verdictWithin)
				}
			}
		}
		slices.SortFunc(x.holds, func(a, b hold) int { return a.compare(&b) })
	}
	f.extras = &x
	return f
}
