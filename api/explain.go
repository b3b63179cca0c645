package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// explainDecision tells a decision's arithmetic in words: one sentence, and one for each limit.
func explainDecision(d *shard.Decision) string {
	var text strings.Builder
	switch {
	case d.Allowed && d.ShadowDenied:
		text.WriteString("Allowed, as the limits that would have denied are shadowed.")
	case d.Allowed:
		text.WriteString("Allowed.")
	case d.RetryAfter == limit.Never:
		text.WriteString("Denied, and nothing was counted. No wait helps.")
	default:
		fmt.Fprintf(&text, "Denied, and nothing was counted. Next admitted at %s, in %s.",
			clock(d.DecidedAt+limit.Time(d.RetryAfter)), length(d.RetryAfter))
	}
	explainLimits(&text, d, true)
	return text.String()
}

// explainState tells what Get saw, one sentence for each limit.
func explainState(d *shard.Decision) string {
	var text strings.Builder
	fmt.Fprintf(&text, "At %s.", clock(d.DecidedAt))
	explainLimits(&text, d, false)
	return text.String()
}

func explainLimits(text *strings.Builder, d *shard.Decision, decided bool) {
	for i := range d.Limits {
		s := &d.Limits[i]
		fmt.Fprintf(text, "\n%s/%s of %s: ", s.Policy, s.Limit, s.Key)
		if s.Unlimited {
			fmt.Fprintf(text, "%d used, no limit.", s.Used)
			continue
		}
		fmt.Fprintf(text, "%d of %d used, %d left", s.Used, s.Quota, s.Remaining)
		if decided {
			text.WriteString("; " + verdict(s))
		}
		text.WriteString(ahead(d, s) + ".")
	}
}

func verdict(s *shard.LimitStatus) string {
	switch {
	case s.Allowed:
		return "allows"
	case s.Shadow:
		return "would deny, but is shadowed"
	}
	return "denies"
}

// ahead tells what time will change.
func ahead(d *shard.Decision, s *shard.LimitStatus) string {
	switch {
	case s.RetryAfter > 0:
		return fmt.Sprintf("; next admitted at %s, in %s", clock(d.DecidedAt+limit.Time(s.RetryAfter)), length(s.RetryAfter))
	case s.RetryAfter == limit.Never:
		return "; no wait helps"
	case s.ResetAt == 0:
		return "; what was used never comes back"
	case s.ResetAt <= d.DecidedAt:
		return "; at rest"
	}
	return fmt.Sprintf("; at rest again at %s, in %s", clock(s.ResetAt), length(limit.Span(s.ResetAt-d.DecidedAt)))
}

func clock(t limit.Time) string {
	return time.UnixMicro(int64(t)).UTC().Format("2006-01-02T15:04:05.999999Z")
}

// length writes a span as Go writes durations, and in whole days where a Duration, which counts nanoseconds, would
// overflow.
func length(span limit.Span) string {
	const day = limit.Span(24 * time.Hour / time.Microsecond)
	if span > 100_000*day {
		return fmt.Sprintf("%d days", span/day)
	}
	return (time.Duration(span) * time.Microsecond).String()
}
