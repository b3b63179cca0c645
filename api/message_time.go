package api

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

const microsPerSecond = 1_000_000

// timestampMax is the last instant that JSON can express: the end of the year 9999. A later instant is left absent,
// which means never.
const timestampMax limit.Time = 253_402_300_799_999_999

// spanMax is the longest wait that JSON can express: about 10,000 years.
const spanMax limit.Span = 315_576_000_000 * microsPerSecond

// waitOf returns a finite wait, or nil for no wait and for limit.Never.
func waitOf(span limit.Span) *durationpb.Duration {
	if span <= 0 || span > spanMax {
		return nil
	}
	return durationOf(span)
}

// durationOf translates a span that is neither negative nor limit.Never. Unlike waitOf it has a message for 0.
func durationOf(span limit.Span) *durationpb.Duration {
	return &durationpb.Duration{
		Seconds: int64(span / microsPerSecond),
		Nanos:   int32(span%microsPerSecond) * 1000,
	}
}

// seconds rounds up, so that a retry after this wait is never too early.
func seconds(span limit.Span) int64 {
	const second = limit.Span(time.Second / time.Microsecond)
	whole := span / second
	if span%second > 0 {
		whole++
	}
	return int64(whole)
}

// optionalTimestamp returns nil for 0 ("none") and for an instant that JSON cannot express.
func optionalTimestamp(t limit.Time) *timestamppb.Timestamp {
	if t <= 0 || t > timestampMax {
		return nil
	}
	return timestampOf(t)
}

// setOptionalTimestamp is optionalTimestamp in allocated memory.
func setOptionalTimestamp(m *timestamppb.Timestamp, t limit.Time) *timestamppb.Timestamp {
	if t <= 0 || t > timestampMax {
		return nil
	}
	return setTimestamp(m, t)
}

// Moment returns the message of an instant, or nil if it is zero or one that JSON cannot express.
func Moment(t time.Time) *timestamppb.Timestamp { return optionalTimestamp(limit.Time(t.UnixMicro())) }

func timestampOf(t limit.Time) *timestamppb.Timestamp {
	return setTimestamp(&timestamppb.Timestamp{}, t)
}

// setTimestamp sets a message to an instant from 1970 on.
func setTimestamp(m *timestamppb.Timestamp, t limit.Time) *timestamppb.Timestamp {
	m.Seconds, m.Nanos = int64(t/microsPerSecond), int32(t%microsPerSecond)*1000
	return m
}

// instantText formats an instant in UTC by RFC 3339, to the microsecond, without zeros at the end.
func instantText(t limit.Time) string {
	return time.UnixMicro(int64(t)).UTC().Format("2006-01-02T15:04:05.999999Z")
}

// spanText formats a span for display. It uses whole days where a time.Duration, which counts nanoseconds, would
// overflow.
func spanText(span limit.Span) string {
	const day = limit.Span(24 * time.Hour / time.Microsecond)
	if span > 100_000*day {
		return fmt.Sprintf("%d days", span/day)
	}
	return DurationText(time.Duration(span) * time.Microsecond)
}

// DurationText formats a wait for display: like policy.SpanText, but 29d23h18m instead of 719h18m. From two days on it
// uses whole minutes, rounded up, so that no retry is too early. d must be whole microseconds, as all spans are.
func DurationText(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return policy.SpanText(limit.Span(d.Microseconds()))
	}
	minutes := d.Truncate(time.Minute)
	if minutes < d {
		minutes += time.Minute
	}
	text := fmt.Sprintf("%dd", minutes/day)
	if hours := minutes % day / time.Hour; hours > 0 {
		text += fmt.Sprintf("%dh", hours)
	}
	if rest := minutes % time.Hour / time.Minute; rest > 0 {
		text += fmt.Sprintf("%dm", rest)
	}
	return text
}
