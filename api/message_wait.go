package api

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

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
