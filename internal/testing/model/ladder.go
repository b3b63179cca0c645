package model

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// deed is an event that moved a key's ladder of blocks, or a block by hand. The whole list is replayed for every
// question about the key's state.
type deed struct {
	kind  deedKind
	at    limit.Time
	until limit.Time      // blocked by hand: its end
	rules *policy.Lockout // of the policy at that time
}

type deedKind uint8

const (
	violated deedKind = iota + 1
	succeeded
	blocked   // by hand
	unblocked // by hand: the ladder is cleared too
	cleared   // the ladder
)

// ladder is the state of a key's ladder.
type ladder struct {
	failures, level uint32
	blockedUntil    limit.Time
	newest          limit.Time // newest violation
}

// ladderAt replays the deeds up to now, as far as they moved the ladder: a block by hand did not.
func ladderAt(deeds []deed, rules *policy.Lockout, now limit.Time) (l ladder) {
	for _, d := range deeds {
		l.forgive(d.rules, d.at)
		switch d.kind {
		case violated:
			l.violate(d.rules, d.at)
		case succeeded:
			l.succeed(d.rules, d.at)
		case unblocked, cleared:
			l = ladder{}
		}
	}
	l.forgive(rules, now)
	return l
}

// byHandAt is the end of an operator's block: the newest block or unblock counts.
func byHandAt(deeds []deed) (until limit.Time) {
	for _, d := range deeds {
		if d.kind == blocked || d.kind == unblocked {
			until = d.until
		}
	}
	return until
}

// blockedUntil is the end of the last block.
func (c *counter) blockedUntil(rules *policy.Lockout, now limit.Time) limit.Time {
	return max(ladderAt(c.deeds, rules, now).blockedUntil, byHandAt(c.deeds))
}

// forgive resets the ladder, long enough after the newest violation and the end of the block.
func (l *ladder) forgive(rules *policy.Lockout, at limit.Time) {
	if rules != nil && l.newest != 0 && at >= max(l.newest, l.blockedUntil)+limit.Time(rules.ForgiveAfter) {
		*l = ladder{}
	}
}

// violate counts a violation. From the After-th on each begins a block: of the length Base, and each time Factor times
// as long, up to Max.
func (l *ladder) violate(rules *policy.Lockout, at limit.Time) {
	l.newest = at
	l.failures++
	if l.failures < rules.After {
		return
	}
	l.level++
	length := rules.Base
	for range l.level - 1 {
		if length > rules.Max/limit.Span(rules.Factor) {
			length = rules.Max
			break
		}
		length *= limit.Span(rules.Factor)
	}
	l.blockedUntil = max(l.blockedUntil, at+limit.Time(min(length, rules.Max)))
}

// succeed ends the block at an instant; from there the time to forgiveness counts.
func (l *ladder) succeed(rules *policy.Lockout, at limit.Time) {
	if rules == nil || !rules.StepDown || l.level <= 1 {
		*l = ladder{}
		return
	}
	l.level--
	l.failures = rules.After - 1 + l.level
	l.blockedUntil = min(l.blockedUntil, at)
}
