package redis

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// bindingLimit returns the most relevant limit: for a denial the one that keeps the caller waiting longest, else the
// one with least left. Without limits it is an empty status.
func bindingLimit(d *shard.Decision) *shard.LimitStatus {
	best := &noStatus
	for i := range d.Limits {
		if s := &d.Limits[i]; i == 0 || bindsMore(d.Allowed, s, best) {
			best = s
		}
	}
	return best
}

// noStatus is the status of a decision without limits. It is never changed.
var noStatus shard.LimitStatus

// bindsMore reports whether s is more relevant than best, for an allowed or a denied request.
func bindsMore(allowed bool, s, best *shard.LimitStatus) bool {
	switch {
	case s.Shadow != best.Shadow:
		return best.Shadow
	case s.Unlimited != best.Unlimited:
		return best.Unlimited
	case allowed:
		return s.Remaining < best.Remaining
	case s.Blocked != best.Blocked:
		return s.Blocked
	case s.Allowed != best.Allowed:
		return best.Allowed
	}
	return best.RetryAfter != limit.Never && (s.RetryAfter == limit.Never || s.RetryAfter > best.RetryAfter)
}

// untilReset returns the time from a decision until everything has come back, or limit.Never.
func untilReset(d *shard.Decision, s *shard.LimitStatus) limit.Span {
	if s.ResetAt == 0 {
		return limit.Never
	}
	return limit.Span(max(s.ResetAt-d.DecidedAt, 0))
}

const (
	millisecond = limit.Span(1000)
	second      = 1000 * millisecond
)

// seconds rounds up, so that no retry is too early; -1 means never.
func seconds(s limit.Span) int64 { return roundUp(s, second) }

func roundUp(s, unit limit.Span) int64 {
	if s == limit.Never {
		return -1
	}
	return int64((s + unit - 1) / unit)
}
