package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// bringUp returns a counter in its state now, for a request with a tier: everything that was due since its record was
// written has happened, in order and each at its own instant. Holds have expired, the override has ended, and the
// limits with numbers changed by a revision of the policy were carried over when the shard adopted it. So the result
// does not depend on which request comes first, or when. A request that only reads gets a copy, so that its questions
// under any tier leave nothing in the record; only a restart of a limit stays, so that the old usage does not reappear
// if the old numbers return.
func (b *batch) bringUp(c *counter, limits []policy.Limit, tier string, reads bool) *counter {
	ended := c.extras.overrideEnded(b.at.Now)
	if !ended && !anyOutdated(c, limits, b.at.Now) {
		c.expire(b.at.Now) //mutant:holds-expire-after-their-batch //mutant:lease-over-at-settlement-in-clusters
		c.mark.blockUnknown(c, b.at.Now)
		return c
	}
	if reads = reads && (c.policy.OnChange != policy.Restart || ended); reads { //mutant:read-leaves-new-numbers
		c = c.copied()
	}
	if dueChangesOf(b, c, tier).pass() && !reads {
		b.touch(c)
	}
	c.mark.blockUnknown(c, b.at.Now)
	return c
}

// anyOutdated reports whether one of a request's limits was counted under numbers that an earlier revision gave it.
func anyOutdated(c *counter, limits []policy.Limit, now limit.Time) bool {
	for i := range limits {
		if j := c.limits.find(i, limits[i].Name); j >= 0 && !c.limits[j].limit.Equal(&limits[i].Limit) &&
			c.limits[j].outdated(c, now) {
			return true
		}
	}
	return false
}

// outdated reports whether a limit that still counts has numbers that neither a tier of the policy nor the key's
// override gives. A limit that has left the policy keeps its numbers, and is not outdated.
func (l *counted) outdated(c *counter, now limit.Time) bool {
	return !l.rests(c, now) && c.policy.Has(l.name) && !c.policy.Gives(l.name, &l.limit, c.override())
}

// dueChanges are the changes that are due on a counter and not in its record yet, for a request with a tier.
type dueChanges struct {
	batch   *batch
	counter *counter
	tier    string
	// rest marks the limits that have come to rest under the numbers that they were counted under. They stay at rest,
	// regardless of later changes: a record with all its limits at rest is forgotten.
	rest []bool
}

func dueChangesOf(b *batch, c *counter, tier string) *dueChanges {
	o := &dueChanges{batch: b, counter: c, tier: tier, rest: make([]bool, len(c.limits))}
	later := c.copied()
	later.expire(b.at.Now)
	for j := range o.rest {
		o.rest[j] = later.limits[j].rests(later, b.at.Now)
	}
	return o
}

// pass makes all due changes, and reports whether there were any besides expired holds.
func (o *dueChanges) pass() (any bool) {
	for o.next() {
		any = true
	}
	o.counter.expire(o.batch.at.Now)
	return any
}

// next makes the next due change, and reports whether there was one. The end of an override is not a revision: units
// used under its numbers stay used, even if a revision would restart the count or forgive the excess over the quota.
func (o *dueChanges) next() bool {
	c := o.counter
	at, j := o.nextRevision()
	ends := c.extras.overrideEnded(o.batch.at.Now) && c.override().Expires <= at
	switch {
	case ends:
		at = c.override().Expires
	case j < 0:
		return false
	}
	c.expire(at)
	if ends {
		o.endOverride(at) //mutant:override-ends-when-noticed
		return true
	}
	limits, k := c.policy.OfTier(o.tier, c.override()), &c.limits[j]
	i := slices.IndexFunc(limits, func(l policy.Limit) bool { return l.Name == k.name })
	if l := &limits[i]; c.policy.OnChange == policy.Restart && l.Algorithm != limit.Concurrency {
		k.limit, k.state = l.Limit, limit.State{}
		c.restart(k, c.beginning(at))
	} else {
		c.set(i, l, c.at(i, l, at), at)
	}
	return true
}

// endOverride carries over the limits that were counted under the override. A later revision finds them without it, and
// carries them over itself.
func (o *dueChanges) endOverride(at limit.Time) {
	c, limits := o.counter, o.counter.policy.OfTier(o.tier, nil)
	for i := range limits {
		l := &limits[i]
		if !c.changing(i, l, at) || !c.policy.Gives(l.Name, &c.limits[c.limits.find(i, l.Name)].limit, c.override()) {
			continue
		}
		revised := o.batch.revisions.of(o.batch.view, c.policy.Name, l.Name)
		if revised <= at || revised == limit.Forever { //mutant:revision-skips-an-ended-override
			c.set(i, l, c.at(i, l, at), at)
		}
	}
	c.extras.override = nil
}

// nextRevision returns the earliest instant at which a revision has changed numbers, and the index of the limit, or -1
// if there is none. If the shard does not know the instant, it is now.
func (o *dueChanges) nextRevision() (at limit.Time, first int) {
	c, now := o.counter, o.batch.at.Now
	at, first = limit.Forever, -1
	for j := range c.limits {
		if k := &c.limits[j]; !o.rest[j] && k.outdated(c, now) {
			//mutant:revision-when-noticed
			if t := min(o.batch.revisions.of(o.batch.view, c.policy.Name, k.name), now); t < at {
				at, first = t, j
			}
		}
	}
	return at, first
}
