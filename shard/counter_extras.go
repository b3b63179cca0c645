package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// The parts of a counter besides the states of its limits. Most counters have none of them.

// counterExtras is the part of a counter besides its limits. The methods that only read it take nil for empty extras.
type counterExtras struct {
	holds     []hold    // in order of (expires, name); copies of the counter share them
	leasedSum uint64    // units of the leases among them
	sums      []heldSum // of the other holds, by index of counter.limits; nil if not computed
	ladder    ladder
	block     limit.Time       // end of a block by hand; 0 if there is none
	override  *policy.Override // never changed, only replaced; it may have expired until bringUp has ended it
}

// code is the extras of a counter, which must not be empty: number of holds, each hold, bits for the parts that follow,
// ladder, override, block.
func (x *counterExtras) code(c *codec.Codec) {
	n := c.CountTo(len(x.holds), c.Left()/5) // a hold has at least five bytes
	if c.Reading() && n > 0 {
		c.Own()
		x.holds = make([]hold, n)
	}
	for i := range x.holds {
		h := &x.holds[i]
		if h.code(c); !c.Reading() {
			continue
		}
		x.leasedSum += h.leasedUnits()
		if i > 0 && x.holds[i-1].compare(h) >= 0 {
			c.Fail()
		}
	}
	hasLadder, hasOverride, hasBlock := x.ladder != ladder{}, x.override != nil, x.block != 0
	if c.Flags(&hasLadder, &hasOverride, &hasBlock); hasLadder {
		x.ladder.code(c)
	}
	codec.Optional(c, hasOverride, &x.override, func(o *policy.Override) { codeOverride(c, o) })
	if hasBlock {
		codeTime(c, &x.block)
	}
	if hasLadder && x.ladder == (ladder{}) || hasBlock && x.block == 0 ||
		n == 0 && !hasLadder && !hasOverride && !hasBlock {
		c.Fail()
	}
}

// extra returns the counter's extras, allocated if necessary, for a change.
func (c *counter) extra() *counterExtras {
	if c.extras == nil {
		c.extras = &counterExtras{}
	}
	return c.extras
}

// showExtras sets the holds, ladder and blocks in the statuses after the decision, if a counter has any.
func (e *evaluation) showExtras(d *Decision) {
	if !e.extras {
		return
	}
	for i := range e.charges {
		ch, c, now := &e.charges[i], e.charges[i].counter, e.at.Now
		until, level := ch.deniedUntil(c, now), c.extras.level(c.policy.Lockout, now)
		denies, byHand := until != 0, c.extras.blockedByHand(now) != 0
		if !denies {
			until = c.extras.blockedUntil(now)
		}
		for j := range ch.limits {
			s := &d.Limits[ch.first+j]
			s.LockoutLevel, s.BlockedUntil, s.Blocked, s.ByHand = level, until, denies, byHand
			s.Held = 0
			if len(c.extras.openHolds()) > 0 {
				s.Held = min(s.Used, c.held(j, &ch.limits[j], now)+c.extras.leased())
			}
		}
	}
}
