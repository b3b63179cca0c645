package api

import (
	"maps"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// statusMessage is a status with its usual instants in one allocation.
type statusMessage struct {
	status               stintv1.LimitStatus
	windowStart, resetAt timestamppb.Timestamp
}

func statusesOf(limits []shard.LimitStatus) []*stintv1.LimitStatus {
	return statusesIn(make([]statusMessage, len(limits)), make([]*stintv1.LimitStatus, len(limits)), limits)
}

// statusesIn fills messages that the caller has allocated.
func statusesIn(
	messages []statusMessage, pointers []*stintv1.LimitStatus, limits []shard.LimitStatus,
) []*stintv1.LimitStatus {
	for i := range limits {
		fillStatus(&messages[i], &limits[i])
		pointers[i] = &messages[i].status
	}
	return pointers
}

func fillStatus(message *statusMessage, s *shard.LimitStatus) {
	m := &message.status
	m.Policy, m.Limit, m.Key = s.Policy, s.Limit, s.Key
	m.Quota, m.Used, m.Remaining = s.Quota, s.Used, s.Remaining
	m.Allowed, m.Shadow, m.Unlimited, m.Soft = s.Allowed, s.Shadow, s.Unlimited, s.Soft
	m.WindowStart = setOptionalTimestamp(&message.windowStart, s.WindowStart)
	m.ResetAt = setOptionalTimestamp(&message.resetAt, s.ResetAt)
	m.RetryAfter = waitOf(s.RetryAfter)
	m.Held, m.Granted = s.Held, s.Granted
	m.LockoutLevel, m.BlockedUntil = s.LockoutLevel, optionalTimestamp(s.BlockedUntil)
}

// tighter reports whether a matters more to the caller than b: a limit that stops the request for longer, else the
// limit with less left.
func tighter(d *shard.Decision, a, b *shard.LimitStatus) bool {
	switch {
	case stops(a) != stops(b):
		return stops(a)
	case !stops(a):
		return a.Left() < b.Left()
	case b.RetryAfter == limit.Never:
		return false
	}
	return a.RetryAfter == limit.Never || stoppedFor(d, a) > stoppedFor(d, b)
}

// stops reports whether a limit stops the request, by itself or because its key is blocked.
func stops(s *shard.LimitStatus) bool { return !s.Allowed || s.Blocked }

// untilNext is untilMore, except for buckets that admit: their units come back one by one, long before the bucket is
// full.
func untilNext(d *shard.Decision, l *policy.Limit, s *shard.LimitStatus) (limit.Span, bool) {
	wait, ok := untilMore(d, s)
	if !ok || stops(s) || (l.Algorithm != limit.TokenBucket && l.Algorithm != limit.GCRA) || s.Remaining >= s.Quota {
		return wait, ok
	}
	later := l.Limit
	later.Quota = s.Quota - s.Remaining - 1 // they come after the next one
	return max(0, wait-refillTime(later)), true
}

// untilMore returns the wait until a limit that stops the request lets it through, or until another limit is back at
// rest. It returns false if that never happens.
func untilMore(d *shard.Decision, s *shard.LimitStatus) (limit.Span, bool) {
	switch {
	case stops(s):
		return stoppedFor(d, s), s.RetryAfter != limit.Never
	case s.ResetAt == 0:
		return 0, false
	}
	return max(0, limit.Span(s.ResetAt-answeredAt(d))), true
}

// stoppedFor returns how long a limit or a block of its key stops the request.
func stoppedFor(d *shard.Decision, s *shard.LimitStatus) limit.Span {
	wait := s.RetryAfter
	if s.Blocked && wait != limit.Never {
		wait = max(wait, limit.Span(s.BlockedUntil-answeredAt(d)))
	}
	return wait
}

// ruleShown is decisions.Rule, of a bucket with the rate that its status shows. A key may have an override, of another
// tier or of a rate of its own; a rate that no tier has is not known, and then neither is when its units come back.
func ruleShown(policies *policy.Set, r *shard.Request, d *shard.Decision, s *shard.LimitStatus) (policy.Limit, bool) {
	l, found := decisions.Rule(policies, r, s)
	p := decisions.PolicyOfStatus(policies, r, s)
	fits := func(l policy.Limit) bool { return l.Name == s.Limit && l.Quota == s.Quota && comesBack(&l, d, s) }
	if l.Count == 0 || p == nil || p.Lease != nil && l.Quota == s.Quota || fits(l) { // leased units do not come back
		return l, found
	}
	tiers := p.EveryTier()
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		if i := slices.IndexFunc(tiers[tier], fits); i >= 0 { //mutant:headers-of-another-tier
			return tiers[tier][i], true
		}
	}
	return policy.Limit{Unit: l.Unit}, found
}

// comesBack reports whether what is used comes back at the rate of a bucket in the time that its status tells: the last
// of the used units may be a part of one.
func comesBack(l *policy.Limit, d *shard.Decision, s *shard.LimitStatus) bool {
	span, least, most := limit.Span(s.ResetAt-d.DecidedAt), l.Limit, l.Limit
	least.Quota, most.Quota = s.Used-min(s.Used, 1), s.Used
	return span <= 0 || refillTime(least) <= span && span <= refillTime(most)
}

// windowOf returns the span in which a limit's whole quota comes back. It returns 0 if it never does, or if it is not
// known: l is the zero Limit then, as of a policy that no longer exists.
func windowOf(l *policy.Limit, s *shard.LimitStatus) limit.Span {
	switch {
	case l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA:
		whole := l.Limit
		whole.Quota = s.Quota // the key may have an override
		return refillTime(whole)
	case l.Algorithm == limit.Calendar && s.Used > 0: // else no period is open
		return limit.Span(s.ResetAt - s.WindowStart)
	}
	return l.Period
}

// refillTime returns ceil(quota x period / count), computed in 128 bits; 0 if the result does not fit a Span.
func refillTime(l limit.Limit) limit.Span {
	high, low := bits.Mul64(l.Quota, uint64(l.Period))
	if high >= l.Count {
		return 0
	}
	span, rest := bits.Div64(high, low, l.Count)
	if rest > 0 {
		span++
	}
	if span > uint64(spanMax) {
		return 0
	}
	return limit.Span(span)
}
