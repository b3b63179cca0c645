package model

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// hold is a reservation that is not settled yet.
type hold struct {
	name    Target
	expires limit.Time
	taken   limit.Time // when its units were spent: what is given back is given back as of then
	cost    uint64
	commit  bool           // whether it is committed when it expires
	counted map[string]int // the limits that counted it, with their generation
}

func (h *hold) countsOn(k *kept) bool {
	generation, counted := h.counted[k.name]
	return counted && generation == k.generation
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
