package model

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// counter is what a shard must know about one key under one policy. Each question goes to a copy, on which due holds
// have ended; the copy replaces the counter when something is counted.
type counter struct {
	kept     []kept
	holds    []hold
	deeds    []deed
	override *policy.Override
	bill     bill
	changed  limit.Time     // when it was last kept
	under    *policy.Policy // the policy by which it was last kept
}

// kept is one limit with its counts. A new generation begins when the limit is reset or set, when it is carried over to
// another shape or under a rule other than as-is, and when it is used again after it came to rest by itself. Units that
// a hold took in an earlier generation are not given back. Of a decision only the instant is known: units taken at or
// before since belong to an earlier generation.
type kept struct {
	name       string
	model      *Model
	generation int
	since      limit.Time
}

// hold is a reservation that is not settled yet.
type hold struct {
	name    Target
	expires limit.Time
	taken   limit.Time
	cost    uint64
	commit  bool           // whether it is committed when it expires
	counted map[string]int // the limits that counted it, with their generation
}

func (c *counter) copied() *counter {
	other := &counter{kept: slices.Clone(c.kept), holds: slices.Clone(c.holds), deeds: slices.Clip(c.deeds),
		override: c.override, bill: c.bill.copied(), changed: c.changed, under: c.under}
	for i := range other.kept {
		other.kept[i].model = other.kept[i].model.copied()
	}
	return other
}

// expire ends the holds that are due at now, each at its own time.
func (c *counter) expire(p *policy.Policy, now limit.Time) {
	slices.SortFunc(c.holds, func(a, b hold) int { return cmp.Compare(a.expires, b.expires) })
	for len(c.holds) > 0 && c.holds[0].expires <= now {
		due := c.holds[0]
		c.holds = c.holds[1:]
		if due.commit {
			c.violate(p.Lockout, due.expires)
		} else {
			c.cancel(due, due.cost, due.expires)
			c.bill.giveBack(p, due.cost, due.taken, due.expires)
		}
		c.release(due, due.expires)
	}
}

func (c *counter) violate(rules *policy.Lockout, at limit.Time) {
	if rules != nil {
		c.deeds = append(c.deeds, deed{kind: violated, at: at, rules: rules})
	}
}

// refund gives back units of a decision, on every limit that counted it in the current generation. Concurrency limits
// count only holds.
func (c *counter) refund(units uint64, countedBy []string, taken, at limit.Time) {
	for i := range c.kept {
		k := &c.kept[i]
		if units > 0 && slices.Contains(countedBy, k.name) && taken > k.since && !k.concurrency() {
			k.model.Refund(units, taken, at)
		}
	}
}

// cancel gives back units of a hold, except on the concurrency limits: release gives those back in any case.
func (c *counter) cancel(h hold, units uint64, at limit.Time) {
	for i := range c.kept {
		if k := &c.kept[i]; units > 0 && h.countsOn(k) && !k.concurrency() {
			k.model.Refund(units, h.taken, at)
		}
	}
}

// release gives back the units of an ending hold on the concurrency limits.
func (c *counter) release(h hold, at limit.Time) {
	for i := range c.kept {
		if k := &c.kept[i]; h.countsOn(k) && k.concurrency() {
			k.model.Refund(h.cost, h.taken, at)
		}
	}
}

func (h *hold) countsOn(k *kept) bool {
	generation, counted := h.counted[k.name]
	return counted && generation == k.generation
}

func (k *kept) concurrency() bool { return k.model.limit.Algorithm == limit.Concurrency }

// atRest reports whether the limit answers as if it had never been used.
func (k *kept) atRest(now limit.Time) bool {
	l := k.model.limit
	partial := l.Algorithm == limit.TokenBucket && l.Initial < l.Quota
	return neverBegun(k.model.memory) || !partial && k.model.Idle(now)
}

func (c *counter) find(name string) *kept {
	for i := range c.kept {
		if c.kept[i].name == name {
			return &c.kept[i]
		}
	}
	return nil
}

// at is a limit with its current numbers. It carries over what was used, and a limit that came to rest starts fresh.
func (c *counter) at(l *policy.Limit, p *policy.Policy, now limit.Time) *kept {
	k := c.find(l.Name)
	if k == nil {
		c.kept = append(c.kept, kept{name: l.Name})
		k = &c.kept[len(c.kept)-1]
	}
	if k.model != nil && !same(k.model.limit, l.Limit) && !k.atRest(now) {
		c.change(k, l.Limit, p, now)
	}
	if k.model == nil || k.atRest(now) {
		k.model = New(l.Limit)
		k.generation++
		k.since = max(k.since, now-1)
	}
	return k
}

// bringUp lets everything happen that is due at now, each at its own instant, and reports whether a change of numbers
// was among it: holds expire, an override ends, and what was counted under numbers that the policy no longer has is
// carried over at the instant of the revision, or starts fresh, if the policy demands it.
//
// A limit that has come to rest under the numbers that it was counted under is at rest, whatever came in between: the
// shard may have forgotten it by now.
func (c *counter) bringUp(p *policy.Policy, tier string, revised map[place]limit.Time, now limit.Time) (changed bool) {
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
func (c *counter) outdatedSince(k *kept, p *policy.Policy, revised map[place]limit.Time, now limit.Time) limit.Time {
	known := slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.Name == k.name })
	if k.model == nil || !known || k.atRest(now) || c.knows(p, k.name, k.model.limit) {
		return now + 1
	}
	if at := revised[place{p.Name, k.name}]; at > 0 && at < now {
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
func (c *counter) endOverride(p *policy.Policy, tier string, revised map[place]limit.Time, at limit.Time) {
	for _, l := range resolve(p, tier, nil) {
		k := c.find(l.Name)
		if k != nil && k.model != nil && c.knows(p, l.Name, k.model.limit) && revised[place{p.Name, l.Name}] <= at {
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

// reserved is what open holds have taken of a limit, even if it no longer counts there.
func (c *counter) reserved(k *kept) (units uint64) {
	for _, h := range c.holds {
		if h.countsOn(k) {
			units += h.cost
		}
	}
	return units
}

// held is how much of the units used on a limit is taken by open holds.
func (c *counter) held(k *kept, now limit.Time) (units uint64) {
	for _, h := range c.holds {
		if h.countsOn(k) && k.model.stillCounts(h.taken, now) {
			units += h.cost
		}
	}
	return min(units, ceiling(k.model.memory.used(now)))
}

// takeHold removes a hold and returns it.
func (c *counter) takeHold(name Target) (hold, bool) {
	i := slices.IndexFunc(c.holds, func(h hold) bool { return h.name == name })
	if i < 0 {
		return hold{}, false
	}
	h := c.holds[i]
	c.holds = slices.Delete(c.holds, i, i+1)
	return h, true
}
