package shard

import (
	"slices"

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
// already: see overdue. Additive forgives a debt, so it too applies only to a revision; otherwise a caller that
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
	if overdueOf(b, c, tier).pass() && !reads {
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

func (l *counted) outdated(c *counter, now limit.Time) bool {
	return !l.rests(c, now) && c.policy.Has(l.name) && !c.policy.Gives(l.name, &l.limit, c.override())
}

// overdue is the changes that are due on a counter and not in its record yet, for a request with a tier.
type overdue struct {
	batch   *batch
	counter *counter
	tier    string
	// rest marks the limits that have come to rest under the numbers that they were counted under. They stay at rest,
	// regardless of later changes: a record with all its limits at rest is forgotten.
	rest []bool
}

func overdueOf(b *batch, c *counter, tier string) *overdue {
	o := &overdue{batch: b, counter: c, tier: tier, rest: make([]bool, len(c.limits))}
	later := c.copied()
	later.expire(b.at.Now)
	for j := range o.rest {
		o.rest[j] = later.limits[j].rests(later, b.at.Now)
	}
	return o
}

// pass makes all due changes, and reports whether there were any besides expired holds.
func (o *overdue) pass() (any bool) {
	for o.next() {
		any = true
	}
	o.counter.expire(o.batch.at.Now)
	return any
}

// next makes the next due change, and reports whether there was one. The end of an override is not a revision: units
// used under its numbers stay used, even if a revision would restart the count or forgive the excess over the quota.
func (o *overdue) next() bool {
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
func (o *overdue) endOverride(at limit.Time) {
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
func (o *overdue) nextRevision() (at limit.Time, first int) {
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
