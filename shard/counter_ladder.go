package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// ladder is a counter's memory of violations, as defined by policy.Lockout. The zero ladder is a key without
// violations. A Block by hand is not part of it: the success of an attempt in progress must not end a person's
// decision.
type ladder struct {
	failures      uint32     // in a row
	level         uint32     // blocks so far; 0 under a running block: that of a restore (blockUnknown)
	blockedUntil  limit.Time // by the ladder; possibly in the past
	lastViolation limit.Time
}

func (l *ladder) code(c *codec.Codec) {
	codec.Uint(c, &l.failures, math.MaxUint32)
	codec.Uint(c, &l.level, math.MaxUint32)
	codeTime(c, &l.blockedUntil)
	codeTime(c, &l.lastViolation)
}

// violate records a violation at an instant, and blocks the key if there are too many. It does nothing for a policy
// without a lockout.
func (c *counter) violate(at limit.Time) {
	k := c.policy.Lockout
	if k == nil {
		return
	}
	l := &c.extra().ladder
	if at >= l.forgiven(k) { //mutant:ladder-never-forgiven
		l.failures, l.level = 0, 0
	}
	l.lastViolation = at
	l.failures = min(l.failures, math.MaxUint32-1) + 1
	if l.failures < k.After {
		return
	}
	l.level = min(l.level, math.MaxUint32-1) + 1 //mutant:ladder-does-not-climb
	l.blockedUntil = max(l.blockedUntil, at+limit.Time(blockSpan(k, l.level)))
}

// succeed records a success at an instant: it clears failures, ladder and the ladder's block, or takes the ladder one
// level down. The time until forgiveness then counts as if the block had been due to end at that instant, and the
// next violation blocks at once.
func (x *counterExtras) succeed(k *policy.Lockout, at limit.Time) {
	if x == nil {
		return
	}
	l := &x.ladder
	if k == nil || !k.StepDown || l.level <= 1 || l.ends(k) <= at {
		*l = ladder{} //mutant:success-lifts-manual-block
		return
	}
	l.level--
	l.failures = k.After - 1 + l.level
	l.blockedUntil = min(l.blockedUntil, at) //mutant:success-lifts-no-block
}

// forgiven returns the instant from which the ladder starts again.
func (l *ladder) forgiven(k *policy.Lockout) limit.Time {
	return max(l.lastViolation, l.blockedUntil) + limit.Time(k.ForgiveAfter)
}

// ends returns the instant from which the ladder no longer matters.
func (l *ladder) ends(k *policy.Lockout) limit.Time {
	if k == nil || l.failures == 0 {
		return l.blockedUntil
	}
	return l.forgiven(k)
}

// blockSpan returns the length of the level-th block, counted from 1.
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

// blockedUntil returns when the key's blocks, by hand and by the ladder, have both ended, or 0 if it is not blocked.
func (x *counterExtras) blockedUntil(now limit.Time) limit.Time {
	if x == nil {
		return 0
	}
	until := max(x.block, x.ladder.blockedUntil) //mutant:manual-block-hides-ladder
	if until <= now {
		return 0
	}
	return until
}

// blockedByHand returns when the block by hand ends, or 0 if there is none.
func (x *counterExtras) blockedByHand(now limit.Time) limit.Time {
	if x == nil || x.block <= now {
		return 0
	}
	return x.block
}

// level returns how many blocks of the ladder are not forgiven.
func (x *counterExtras) level(k *policy.Lockout, now limit.Time) uint32 {
	if x == nil || k == nil || x.ladder.ends(k) <= now {
		return 0
	}
	return x.ladder.level
}

// unblock ends all blocks and clears the ladder.
func (x *counterExtras) unblock() {
	x.clearLadder()
	if x != nil {
		x.block = 0
	}
}

// clearLadder removes all violations. It leaves a block by hand in place.
func (x *counterExtras) clearLadder() {
	if x != nil {
		x.ladder = ladder{}
	}
}
