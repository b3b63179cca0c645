package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// ladder is what a counter remembers of violations, as policy.Lockout says. The zero ladder is a key that did nothing. A
// Block by hand is no part of it: the success of an attempt that was under way must not end what a person has decided.
type ladder struct {
	failures      uint32     // in a row
	level         uint32     // blocks so far
	blockedUntil  limit.Time // by the ladder itself
	lastViolation limit.Time
}

// violate notes a violation at an instant, and blocks the key if it is one too many. A policy without a lockout does
// not know violations.
func (c *counter) violate(at limit.Time) {
	k := c.lockout()
	if k == nil {
		return
	}
	l := &c.extra().ladder
	if at >= l.forgiven(k) {
		l.failures, l.level = 0, 0
	}
	l.lastViolation = at
	l.failures = min(l.failures, math.MaxUint32-1) + 1
	if l.failures < k.After {
		return
	}
	l.level = min(l.level, math.MaxUint32-1) + 1
	l.blockedUntil = max(l.blockedUntil, at+limit.Time(blockSpan(k, l.level)))
}

// succeed notes a success at an instant: failures, ladder and its block end, or the ladder is one level lower. It is
// forgiven as if the block had been to end then.
func (c *counter) succeed(at limit.Time) {
	if c.extras == nil {
		return
	}
	l, k := &c.extras.ladder, c.lockout()
	if k == nil || !k.StepDown || l.level <= 1 || l.ends(k) <= at {
		*l = ladder{}
		return
	}
	l.level--
	l.failures = k.After - 1 + l.level
	l.blockedUntil = min(l.blockedUntil, at)
}

// forgiven is the instant from which on the ladder begins again.
func (l *ladder) forgiven(k *policy.Lockout) limit.Time {
	return max(l.lastViolation, l.blockedUntil) + limit.Time(k.ForgiveAfter)
}

// ends is the instant from which on the ladder says nothing any more.
func (l *ladder) ends(k *policy.Lockout) limit.Time {
	if k == nil || l.failures == 0 {
		return l.blockedUntil
	}
	return l.forgiven(k)
}

// blockSpan is how long the level-th block lasts, from 1.
func blockSpan(k *policy.Lockout, level uint32) limit.Span {
	span, factor := k.Base, limit.Span(k.Factor)
	for i := uint32(1); i < level && factor > 1 && span < k.Max; i++ {
		if span > k.Max/factor {
			return k.Max
		}
		span *= factor
	}
	return min(span, k.Max)
}

// blockedUntil is when the key's blocks, that by hand and the ladder's, have both ended; 0: it is not blocked.
func (c *counter) blockedUntil(now limit.Time) limit.Time {
	if c.extras == nil {
		return 0
	}
	until := max(c.extras.block, c.extras.ladder.blockedUntil)
	if until <= now {
		return 0
	}
	return until
}

// level is how many blocks of the ladder are not forgiven.
func (c *counter) level(now limit.Time) uint32 {
	if c.extras == nil || c.lockout() == nil || c.extras.ladder.ends(c.lockout()) <= now {
		return 0
	}
	return c.extras.ladder.level
}

// blockUntil denies everything until an instant, in the place of an earlier block by hand. Nothing but unblock and that
// instant ends it.
func (c *counter) blockUntil(until limit.Time) { c.extra().block = until }

// unblock ends the blocks, and clears the ladder.
func (c *counter) unblock() {
	c.clearLadder()
	if c.extras != nil {
		c.extras.block = 0
	}
}

// clearLadder makes it a key that did nothing, if somebody has blocked it by hand or not.
func (c *counter) clearLadder() {
	if c.extras != nil {
		c.extras.ladder = ladder{}
	}
}
