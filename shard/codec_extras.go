package shard

import (
	"maps"
	"math"
	"slices"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

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

func (l *ladder) code(c *codec.Codec) {
	codec.Uint(c, &l.failures, math.MaxUint32)
	codec.Uint(c, &l.level, math.MaxUint32)
	codeTime(c, &l.blockedUntil)
	codeTime(c, &l.lastViolation)
}

// codeOverride is an override: tier, expires, number of limits, then for each limit, in the order of names, which
// numbers it has and those numbers.
func codeOverride(c *codec.Codec, o *policy.Override) {
	if c.Reading() {
		c.Own()
	}
	c.Text(&o.Tier)
	codeTime(c, &o.Expires)
	codeTierLimits(c, &o.Limits, c.Left()/2)
}

// codeTierLimits are the numbers that an override changes, of at most most limits.
func codeTierLimits(c *codec.Codec, limits *map[string]policy.TierLimit, most int) {
	names := slices.Sorted(maps.Keys(*limits))
	if n := c.CountTo(len(names), most); c.Reading() && n > 0 {
		names, *limits = make([]string, n), make(map[string]policy.TierLimit, n)
	}
	for i := range names {
		t := (*limits)[names[i]]
		quota, refill, rate := t.Quota != nil, t.Refill != nil, t.Rate != nil
		c.Text(&names[i])
		c.Flags(&quota, &refill, &rate)
		number := func(n *uint64) { c.Uint64(n) }
		codec.Optional(c, quota, &t.Quota, number)
		codec.Optional(c, refill, &t.Refill, number)
		codec.Optional(c, rate, &t.Rate, number)
		if !c.Reading() {
			continue
		}
		if (*limits)[names[i]] = t; i > 0 && names[i] <= names[i-1] {
			c.Fail()
		}
	}
}
