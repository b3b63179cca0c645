package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// tidy takes out what says nothing any more at now.
func (c *counter) tidy(now limit.Time) {
	c.forgetSums()
	for i := range c.limits {
		if l := &c.limits[i]; l.since != 0 && c.sinceEnds(l) <= now {
			l.since = 0
		}
	}
	c.limits = slices.DeleteFunc(c.limits, func(l counted) bool {
		return l.since == 0 && limit.ForgetAt(l.limit, l.state) <= now
	})
	x := c.extras
	if x == nil {
		return
	}
	if x.ladder.ends(c.lockout()) <= now {
		x.ladder = ladder{}
	}
	if x.block <= now {
		x.block = 0
	}
	if !inForce(x.override, now) {
		x.override = nil
	}
	if len(x.holds) == 0 && x.ladder == (ladder{}) && x.block == 0 && x.override == nil {
		c.extras = nil
	}
}

// sinceEnds is the instant from which on nobody can give back what was taken at the limit's since or before: no
// decision that old is refunded, and no open hold is that old.
func (c *counter) sinceEnds(l *counted) limit.Time {
	ends := l.since + limit.Time(c.retention())
	for i := range c.holds() {
		if h := &c.extras.holds[i]; h.taken <= l.since && h.remote {
			return limit.Forever
		} else if h.taken <= l.since {
			ends = max(ends, h.expires)
		}
	}
	return ends
}

// forgetAt is an instant from which on the record says nothing any more, as if every open hold had expired by then. Only
// what a limit of itself never forgets is looked at as it will be: all else does not live longer for what is given back.
func (c *counter) forgetAt() limit.Time {
	forgetAt := c.lastExpiry()
	if forgetAt == limit.Forever {
		return limit.Forever
	}
	f := c.future()
	f.limits = slices.DeleteFunc(f.limits, func(l counted) bool { return limit.ForgetAt(l.limit, l.state) != limit.Forever })
	f.expire(forgetAt)
	for i := range c.limits {
		l := &c.limits[i]
		if at := limit.ForgetAt(l.limit, l.state); at != limit.Forever {
			forgetAt = max(forgetAt, at)
		}
		if l.since != 0 {
			forgetAt = max(forgetAt, c.sinceEnds(l))
		}
	}
	for i := range f.limits {
		forgetAt = max(forgetAt, limit.ForgetAt(f.limits[i].limit, f.limits[i].state))
	}
	if f.extras == nil {
		return forgetAt
	}
	forgetAt = max(forgetAt, f.extras.ladder.ends(c.lockout()), f.extras.block)
	if o := f.extras.override; o != nil && o.Expires == 0 {
		return limit.Forever
	} else if o != nil {
		forgetAt = max(forgetAt, o.Expires)
	}
	return forgetAt
}

// inForce reports whether there is an override that has not expired.
func inForce(o *policy.Override, now limit.Time) bool {
	return o != nil && (o.Expires == 0 || o.Expires > now)
}

func (c *counter) retention() limit.Span {
	if c.policy == nil {
		return policy.DefaultRetention
	}
	return c.policy.Retention
}

func (c *counter) lockout() *policy.Lockout {
	if c.policy == nil {
		return nil
	}
	return c.policy.Lockout
}
