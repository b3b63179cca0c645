package check

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// counter is what a shard must know of one key under one policy. Each question is put to a copy, on which the holds
// that are due have ended; the copy takes the counter's place when something is counted.
type counter struct {
	kept     []kept
	holds    []hold
	deeds    []deed
	override *policy.Override
}

// kept is one limit with what was counted on it. A new generation begins when it is put to rest, set, or carried over in
// another way than as it is, and when it is used again after it came to rest by itself: what a hold took in an earlier
// one is not given back. Of a decision only its instant is known: since is that of the last new beginning.
type kept struct {
	name       string
	model      *Model
	generation int
	since      limit.Time
}

// hold is what a Reserve has taken and nobody settled yet.
type hold struct {
	name    Target
	expires limit.Time
	taken   limit.Time
	cost    uint64
	commit  bool           // when it expires
	counted map[string]int // by which limits, in which of their generations
}

func (c *counter) copied() *counter {
	other := &counter{kept: slices.Clone(c.kept), holds: slices.Clone(c.holds), deeds: slices.Clip(c.deeds),
		override: c.override}
	for i := range other.kept {
		other.kept[i].model = other.kept[i].model.copied()
	}
	return other
}

// expire ends the holds that are due at now, each at its own time.
func (c *counter) expire(rules *policy.Lockout, now limit.Time) {
	slices.SortFunc(c.holds, func(a, b hold) int { return cmp.Compare(a.expires, b.expires) })
	for len(c.holds) > 0 && c.holds[0].expires <= now {
		due := c.holds[0]
		c.holds = c.holds[1:]
		if due.commit {
			c.violate(rules, due.expires)
			c.release(due, due.expires)
		} else {
			c.cancel(due, due.cost, due.expires)
			c.release(due, due.expires)
		}
	}
}

func (c *counter) violate(rules *policy.Lockout, at limit.Time) {
	if rules != nil {
		c.deeds = append(c.deeds, deed{kind: violated, at: at, rules: rules})
	}
}

// refund gives back units of a decision, on every limit that has counted it and began before it. Limits of concurrency
// count holds only.
func (c *counter) refund(units uint64, countedBy []string, taken, at limit.Time) {
	for i := range c.kept {
		k := &c.kept[i]
		if units > 0 && slices.Contains(countedBy, k.name) && taken > k.since && !k.concurrency() {
			k.model.Refund(units, taken, at)
		}
	}
}

// cancel gives back units of a hold, but for those that are given back whatever becomes of it.
func (c *counter) cancel(h hold, units uint64, at limit.Time) {
	for i := range c.kept {
		if k := &c.kept[i]; units > 0 && h.countsOn(k) && !k.concurrency() {
			k.model.Refund(units, h.taken, at)
		}
	}
}

// release gives the units of a hold that ends back where only open holds count.
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
	if n, ok := k.model.memory.(*integer); ok {
		return !n.isThere(now)
	}
	partial := l.Algorithm == limit.TokenBucket && l.Initial < l.Quota
	return neverBegun(k.model.memory) || !partial && k.model.memory.used(now).Sign() == 0
}

func (c *counter) find(name string) *kept {
	for i := range c.kept {
		if c.kept[i].name == name {
			return &c.kept[i]
		}
	}
	return nil
}

// at is a limit with its numbers of now. What was used is carried over to them, and what came to rest begins anew.
func (c *counter) at(l *policy.Limit, how policy.OnChange, now limit.Time) *kept {
	k := c.find(l.Name)
	if k == nil {
		c.kept = append(c.kept, kept{name: l.Name})
		k = &c.kept[len(c.kept)-1]
	}
	if k.model != nil && !same(k.model.limit, l.Limit) && !k.atRest(now) {
		c.change(k, l.Limit, how, now)
	}
	if k.model == nil || k.atRest(now) {
		k.model = New(l.Limit)
		k.generation++
		for _, h := range c.holds {
			k.since = max(k.since, h.taken)
		}
	}
	return k
}

// same reports whether two limits have the same numbers, each with a cycle of its own.
func same(a, b limit.Limit) bool {
	if a.Cycle != nil && b.Cycle != nil && *a.Cycle == *b.Cycle {
		a.Cycle = b.Cycle
	}
	return a == b
}

// change carries what was used over to other numbers.
func (c *counter) change(k *kept, l limit.Limit, how policy.OnChange, now limit.Time) {
	old := k.model.limit
	used := k.model.spent(now)
	k.model.Convert(l, now)
	if l.Algorithm == limit.Concurrency { // it is what open holds have taken, whatever the policy says of changes
		k.model.SetUsed(c.reserved(k), now)
		return
	}
	sameQuota := l.Quota == old.Quota || l.Algorithm == limit.Unlimited || old.Algorithm == limit.Unlimited
	if how == policy.AsIs || how != policy.Restart && sameQuota {
		return
	}
	_, fills := k.model.memory.(*bucket)
	switch {
	case how == policy.Restart:
		k.model = New(l)
	case fills && used == 0: // what was used and is full stays full
	case how == policy.Proportional:
		k.model.SetUsed(share(used, l.Quota, old.Quota), now)
	case how == policy.Additive:
		remains := int64(old.Quota-min(used, old.Quota)) + int64(l.Quota) - int64(old.Quota)
		k.model.SetUsed(l.Quota-uint64(min(max(remains, 0), int64(l.Quota))), now)
	}
	k.begin(now)
}

func (k *kept) begin(now limit.Time) {
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

// reserved is what open holds have taken of a limit, whether it still counts there or not.
func (c *counter) reserved(k *kept) (units uint64) {
	for _, h := range c.holds {
		if h.countsOn(k) {
			units += h.cost
		}
	}
	return units
}

// held is how much of what is used on a limit open holds have taken.
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
