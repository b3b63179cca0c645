package model

import "github.com/stint-io/stint/limit"

// adjust applies an operator's request.
func (a *openCharge) adjust(d *Decided) {
	now, c := d.Place.At, a.counter
	switch d.Op {
	case Block:
		c.deeds = append(c.deeds, deed{kind: blocked, at: now, until: d.Until, rules: a.policy.Lockout})
		return
	case Unblock:
		c.deeds = append(c.deeds, deed{kind: unblocked, at: now, rules: a.policy.Lockout})
		return
	case PutOverride, DeleteOverride:
		c.carry(resolve(a.policy, a.Tier, d.Override), a.policy, now) // not a revision: used units stay used
		c.override = d.Override
		a.limits = resolve(a.policy, a.Tier, c.override)
		return
	}
	if d.Op == Reset && d.Limit == "" {
		for i := range c.kept { // including those that the policy no longer has
			c.kept[i].reset(now)
		}
		c.deeds = append(c.deeds, deed{kind: cleared, at: now, rules: a.policy.Lockout})
	}
	for i := range a.limits {
		if d.Limit == "" || d.Limit == a.limits[i].Name {
			a.setUsed(d, i)
		}
	}
}

func (a *openCharge) setUsed(d *Decided, i int) {
	now := d.Place.At
	if a.limits[i].Algorithm == limit.Concurrency && d.Op != Reset {
		return // it counts only open holds
	}
	k := a.at(i, now)
	switch used := k.model.numbers(now).Used; {
	case d.Op == Reset:
		k.reset(now)
	case d.Op == SetUsed:
		a.counting(i, now, func(m *Model) { m.SetUsed(uint64(d.Amount), now) })
		k.void(now)
	case d.Amount > 0:
		a.counting(i, now, func(m *Model) { m.memory.count(uint64(d.Amount), now) })
	case d.Amount < 0:
		a.counting(i, now, func(m *Model) { m.SetUsed(used-min(used, uint64(-d.Amount)), now) })
		k.void(now)
	}
}

func (k *kept) reset(now limit.Time) {
	if !k.atRest(now) {
		k.model = New(k.model.limit)
		k.void(now)
	}
}
