package model

import (
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

func (c *counter) copied() *counter {
	other := &counter{kept: slices.Clone(c.kept), holds: slices.Clone(c.holds), deeds: slices.Clip(c.deeds),
		override: c.override, bill: c.bill.copied(), changed: c.changed, under: c.under}
	for i := range other.kept {
		other.kept[i].model = other.kept[i].model.copied()
	}
	return other
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
