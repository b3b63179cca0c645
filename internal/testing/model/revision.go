package model

import (
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// bringUp lets everything happen that is due at now, each at its own instant, and reports whether a change of numbers
// was among it: holds expire, an override ends, and what was counted under numbers that the policy no longer has is
// carried over at the instant of the revision, or starts fresh, if the policy demands it.
//
// A limit that has come to rest under the numbers that it was counted under is at rest, whatever came in between: the
// shard may have forgotten it by now.
func (c *counter) bringUp(
	p *policy.Policy, tier string, revised map[limitName]limit.Time, now limit.Time,
) (changed bool) {
	alone := c.copied()
	alone.expire(p, now)
	for {
		var next func()
		at := now + 1
		if o := c.override; o != nil && o.Expires != 0 && o.Expires <= now {
			at, next = o.Expires, func() { c.endOverride(p, tier, revised, o.Expires) }
		}
		for i := range c.kept {
			k := &c.kept[i]
			if alone.kept[i].model == nil || alone.kept[i].atRest(now) {
				continue
			}
			if when := c.outdatedSince(k, p, revised, now); when < at {
				at, next = when, func() { c.revise(k, p, tier, when) }
			}
		}
		if next == nil {
			c.expire(p, now)
			return changed
		}
		c.expire(p, at)
		next()
		changed = true
	}
}

// outdatedSince returns when a revision removed the numbers under which a limit was counted, or an instant after now if
// none has.
func (c *counter) outdatedSince(
	k *kept, p *policy.Policy, revised map[limitName]limit.Time, now limit.Time,
) limit.Time {
	known := slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.Name == k.name })
	if k.model == nil || !known || k.atRest(now) || c.knows(p, k.name, k.model.limit) {
		return now + 1
	}
	if at := revised[limitName{p.Name, k.name}]; at > 0 && at < now {
		return at
	}
	return now
}

func (c *counter) revise(k *kept, p *policy.Policy, tier string, at limit.Time) {
	for _, l := range resolve(p, tier, c.override) {
		switch {
		case l.Name != k.name:
		case p.OnChange == policy.Restart && l.Algorithm != limit.Concurrency:
			k.model = New(l.Limit)
			c.begin(k, at)
		case k.atRest(at): // as at now
			k.model = New(l.Limit)
		default:
			c.at(&l, p, at)
		}
	}
}

// endOverride carries the limits over that were counted under the override. A revision that came later does so itself.
func (c *counter) endOverride(p *policy.Policy, tier string, revised map[limitName]limit.Time, at limit.Time) {
	for _, l := range resolve(p, tier, nil) {
		k := c.find(l.Name)
		if k != nil && k.model != nil && c.knows(p, l.Name, k.model.limit) && revised[limitName{p.Name, l.Name}] <= at {
			c.carry([]policy.Limit{l}, p, at)
		}
	}
	c.override = nil
}

// carry converts the used units of some limits to new numbers, and reports whether there were any.
func (c *counter) carry(limits []policy.Limit, p *policy.Policy, now limit.Time) (any bool) {
	for i := range limits {
		if k := c.find(limits[i].Name); k != nil && k.model != nil && !same(k.model.limit, limits[i].Limit) &&
			!k.atRest(now) {
			c.at(&limits[i], p, now)
			any = true
		}
	}
	return any
}

// knows reports whether a limit has these numbers in any tier, with or without the key's override.
func (c *counter) knows(p *policy.Policy, name string, l limit.Limit) bool {
	tiers := []string{""}
	for tier := range p.Tiers {
		tiers = append(tiers, tier)
	}
	for _, tier := range tiers {
		for _, o := range []*policy.Override{nil, c.override} {
			for _, resolved := range resolve(p, tier, o) {
				if resolved.Name == name && same(resolved.Limit, l) {
					return true
				}
			}
		}
	}
	return false
}

// same reports whether two limits have equal numbers, even if each has its own cycle.
func same(a, b limit.Limit) bool {
	if a.Cycle != nil && b.Cycle != nil && *a.Cycle == *b.Cycle {
		a.Cycle = b.Cycle
	}
	return a == b
}

// change carries the used units over to other numbers.
func (c *counter) change(k *kept, l limit.Limit, p *policy.Policy, now limit.Time) {
	old := k.model.limit
	used := k.model.spent(now)
	k.model.Convert(l, now)
	// Used is what open holds have taken, regardless of the policy's rule for changes.
	if l.Algorithm == limit.Concurrency {
		k.model.SetUsed(c.reserved(k), now)
		return
	}
	how := p.OnChange
	sameQuota := l.Quota == old.Quota || l.Quota == 0 || old.Quota == 0
	if how == policy.Restart || sameQuota || how == policy.Additive && c.knows(p, k.name, old) {
		how = policy.AsIs
	}
	_, fills := k.model.memory.(*bucket)
	switch {
	case how == policy.AsIs && continues(old, l):
		return
	case how == policy.AsIs, fills && used == 0: // a limit that was used and is full stays full
	case how == policy.Proportional:
		k.model.scale(l.Quota, old.Quota, now)
	case how == policy.Additive:
		remains := int64(old.Quota-min(used, old.Quota)) + int64(l.Quota) - int64(old.Quota)
		k.model.SetUsed(l.Quota-uint64(min(max(remains, 0), int64(l.Quota))), now)
	}
	c.begin(k, now)
}

// continues reports whether a limit with other numbers still knows when everything that it counts was taken.
func continues(old, l limit.Limit) bool {
	windows := []limit.Algorithm{limit.FixedWindow, limit.FixedWindowFirstHit, limit.Calendar}
	if slices.Contains(windows, old.Algorithm) && slices.Contains(windows, l.Algorithm) {
		return true
	}
	old.Quota, old.Initial = l.Quota, l.Initial
	if isLog(l) {
		old.Period = l.Period
	}
	return old == l
}

// begin starts a generation: units taken earlier are void. That includes the current batch's, if it has taken any.
func (c *counter) begin(k *kept, now limit.Time) {
	k.generation++
	k.since = now - 1
	if c.changed == now {
		k.since = now
	}
}

// void is begin for an operator's action: it includes what the current batch has taken, in any case.
func (k *kept) void(now limit.Time) {
	k.generation++
	k.since = now
}

// share is used * quota / before, rounded up.
func share(used, quota, before uint64) uint64 {
	if before == 0 {
		return used
	}
	part := new(big.Rat).SetFrac(new(big.Int).SetUint64(quota), new(big.Int).SetUint64(before))
	return ceiling(part.Mul(part, rat(used)))
}
