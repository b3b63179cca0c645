package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// ladder is what a counter remembers of violations, as policy.Lockout says, and of a Block by hand, which a policy
// without a lockout has too. The zero ladder is a key that did nothing.
type ladder struct {
	failures      uint32 // in a row
	level         uint32 // blocks so far
	blockedUntil  limit.Time
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

// succeed notes a success at an instant: failures, ladder and block end, or the ladder is one level lower. It is
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

// blockedUntil is when the key's block ends; 0: it is not blocked.
func (c *counter) blockedUntil(now limit.Time) limit.Time {
	if c.extras == nil || c.extras.ladder.blockedUntil <= now {
		return 0
	}
	return c.extras.ladder.blockedUntil
}

// level is how many blocks of the ladder are not forgiven.
func (c *counter) level(now limit.Time) uint32 {
	if c.extras == nil || c.lockout() == nil || c.extras.ladder.ends(c.lockout()) <= now {
		return 0
	}
	return c.extras.ladder.level
}

// block denies everything until an instant. A ladder that is forgiven by now does not come back with it.
func (c *counter) block(until, now limit.Time) {
	l := &c.extra().ladder
	if l.ends(c.lockout()) <= now {
		*l = ladder{}
	}
	l.blockedUntil = until
}

// unblock ends the block, and clears the ladder.
func (c *counter) unblock() {
	if c.extras != nil {
		c.extras.ladder = ladder{}
	}
}
