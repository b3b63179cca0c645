package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// tidy removes everything that no longer matters at now.
func (c *counter) tidy(now limit.Time) {
	c.extras.forgetSums()
	c.meters = c.meters.tidy(c, now)
	if len(c.marks) > 0 {
		c.marks = c.marks.tidy(now)
	}
	for i := range c.limits {
		l := &c.limits[i]
		if l.since != 0 && c.sinceEnds(l) <= now {
			l.since = 0
		}
		l.cleared = l.cleared && c.mark.clearedUntil(c.policy, l.limit) > now
	}
	c.ladderKnown = c.ladderKnown && c.mark.ladderUnknownUntil(c.policy.Lockout) > now
	c.limits = slices.DeleteFunc(c.limits, func(l counted) bool {
		//mutant:cleared-key-full-again
		return l.rests(c, now) && !l.cleared && !l.keepsSince(now)
	})
	x := c.extras
	if x == nil {
		return
	}
	if x.ladder.ends(c.policy.Lockout) <= now {
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

// keepsSince reports whether a limit at rest is kept for its since. A state that begins again has a later since of its
// own. So the old one is needed only within its own instant, because the new since would be one earlier.
func (l *counted) keepsSince(now limit.Time) bool { return l.since >= now }

// knownUntil returns until when the record is kept for facts that only a restored shard remembers.
func (c *counter) knownUntil() (until limit.Time) {
	if c.ladderKnown {
		until = c.mark.ladderUnknownUntil(c.policy.Lockout)
	}
	for i := range c.limits {
		if l := &c.limits[i]; l.cleared {
			until = max(until, c.mark.clearedUntil(c.policy, l.limit))
		}
	}
	return until
}

// sinceNeeded returns the instant until which a limit that will be at rest is kept for its since.
func (l *counted) sinceNeeded(now limit.Time) limit.Time {
	if l.keepsSince(now) {
		return l.since + 1
	}
	return 0
}

// sinceEnds returns the instant from which units taken at the limit's since or before can no longer be given back: no
// decision that old can be refunded, and no open hold is that old.
func (c *counter) sinceEnds(l *counted) limit.Time {
	ends := l.since + min(c.namedFor(), limit.Forever-l.since)
	for i := range c.extras.openHolds() {
		if h := &c.extras.holds[i]; h.taken <= l.since && h.remote {
			return limit.Forever
		} else if h.taken <= l.since {
			ends = max(ends, h.expires)
		}
	}
	return ends
}

// forgetAt returns an instant from which the record no longer matters, as if every open hold had expired by then. Only
// a limit that is never forgotten in its current state is examined in its future state. Giving units back does not
// prolong the life of anything else; but a lease that ends does.
func (c *counter) forgetAt(now limit.Time) limit.Time {
	forgetAt := c.extras.lastExpiry()
	if forgetAt == limit.Forever {
		return limit.Forever
	}
	f := c.future(now)
	if c.extras.leased() == 0 { //mutant:forgotten-before-its-lease
		f.limits = slices.DeleteFunc(f.limits, func(l counted) bool {
			return limit.ForgetAt(l.limit, l.state) != limit.Forever
		})
	}
	f.expire(forgetAt)
	for i := range c.limits {
		l := &c.limits[i]
		if at := limit.ForgetAt(l.limit, l.state); at != limit.Forever {
			forgetAt = max(forgetAt, at)
		}
		forgetAt = max(forgetAt, l.sinceNeeded(now))
	}
	for i := range f.limits {
		forgetAt = max(forgetAt, limit.ForgetAt(f.limits[i].limit, f.limits[i].state))
	}
	if f.extras == nil {
		return forgetAt
	}
	forgetAt = max(forgetAt, f.extras.ladder.ends(c.policy.Lockout), f.extras.block)
	if o := f.extras.override; o != nil && o.Expires == 0 {
		return limit.Forever
	} else if o != nil {
		forgetAt = max(forgetAt, o.Expires, restsWithout(c, o, now)) //mutant:forgotten-before-its-override-ends
	}
	return forgetAt
}

// restsWithout returns when the limits are at rest if nothing is done and an override ends, under any tier.
func restsWithout(c *counter, o *policy.Override, now limit.Time) (at limit.Time) {
	for _, limits := range c.policy.EveryTier() {
		f := c.future(now)
		f.expire(o.Expires)
		f.carry(limits, o.Expires)
		f.expire(c.extras.lastExpiry())
		for i := range f.limits {
			at = max(at, limit.ForgetAt(f.limits[i].limit, f.limits[i].state))
		}
	}
	return at
}

// namedFor returns how long a decision can be named. A short retention may be a mistake that is undone later: then
// earlier ids are good again. So it is the longest retention that the policy may have, whatever it has now.
func (c *counter) namedFor() limit.Time {
	return limit.Time(c.policy.RetentionMost()) //mutant:marks-end-with-a-lowered-retention
}
