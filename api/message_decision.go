package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

const microsPerSecond = 1_000_000

// timestampMax is the last instant that JSON can express: the end of the year 9999. A later instant is left absent,
// which means never.
const timestampMax limit.Time = 253_402_300_799_999_999

// spanMax is the longest wait that JSON can express: about 10,000 years.
const spanMax limit.Span = 315_576_000_000 * microsPerSecond

// plainDecision has the parts of every decision in one allocation.
type plainDecision struct {
	decision  stintv1.Decision
	decidedAt timestamppb.Timestamp
	position  stintv1.Position
	positions [1]*stintv1.Position
	status    [1]statusMessage
	statuses  [1]*stintv1.LimitStatus
}

// statusMessage is a status with its usual instants in one allocation.
type statusMessage struct {
	status               stintv1.LimitStatus
	windowStart, resetAt timestamppb.Timestamp
}

// decisionOf translates a decision into a message, without its ids. The positions are those of the shards that decided;
// for an operation on several shards, home comes first.
func decisionOf(d *shard.Decision) *stintv1.Decision {
	plain := &plainDecision{}
	m := &plain.decision
	m.Allowed, m.Replayed, m.ShadowDenied = d.Allowed, d.Replayed, d.ShadowDenied
	if len(d.Limits) == 1 {
		m.Limits = statusesIn(plain.status[:], plain.statuses[:], d.Limits)
	} else {
		m.Limits = statusesOf(d.Limits)
	}
	m.Outcome, m.Leased = outcomeMessage(d), d.Leased()
	m.DeniedBy, m.RetryAfter = decisions.DeniedBy(d), waitOf(d.RetryAfter)
	m.DecidedAt = setTimestamp(&plain.decidedAt, d.DecidedAt)
	m.HoldExpiresAt = optionalTimestamp(d.HoldExpires)
	plain.position.Shard, plain.position.Epoch, plain.position.Seq = uint32(d.Position.Shard), d.Position.Epoch,
		d.Position.Seq
	plain.positions[0] = &plain.position
	m.Positions = plain.positions[:]
	if d.Operation != nil {
		for i := range d.Operation.Legs {
			m.Positions = append(m.Positions, positionOf(d.Operation.Legs[i].Decision.Position))
		}
	}
	return m
}

// outcomeMessage returns what the caller should do.
func outcomeMessage(d *shard.Decision) stintv1.Outcome {
	switch {
	case d.Allowed:
		return stintv1.Outcome_OUTCOME_ALLOWED
	case d.Challenged():
		return stintv1.Outcome_OUTCOME_CHALLENGE
	}
	return stintv1.Outcome_OUTCOME_DENIED
}

func positionOf(p shard.Position) *stintv1.Position {
	return &stintv1.Position{Shard: uint32(p.Shard), Epoch: p.Epoch, Seq: p.Seq}
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

// firedOf returns the fired thresholds of a Get.
func firedOf(d *shard.Decision) (fired []*stintv1.FiredThreshold) {
	for _, f := range d.Answer().Fired {
		fired = append(fired, firedMessage(&f))
	}
	return fired
}

// leasesOf returns the open leases in an answer, or nil.
func leasesOf(d *shard.Decision) *stintv1.OpenLeases {
	if d.System == nil || d.System.Lease == nil {
		return nil
	}
	return &stintv1.OpenLeases{Units: d.System.Lease.Units, Until: timestampOf(d.System.Lease.Ends)}
}

func firedMessage(f *shard.FiredThreshold) *stintv1.FiredThreshold {
	return &stintv1.FiredThreshold{Policy: f.Policy, Limit: f.Limit, Key: f.Key, Units: f.Units, Percent: f.Percent,
		WindowStart: optionalTimestamp(f.Starts), WindowEnd: optionalTimestamp(f.Ends)}
}

// toldAt returns the instant, in shard time, from which a decision's waits count: when it was made or repeated.
func toldAt(d *shard.Decision) limit.Time { return d.DecidedAt + limit.Time(d.Age) }

// waitOf returns a finite wait, or nil for no wait and for limit.Never.
func waitOf(span limit.Span) *durationpb.Duration {
	if span <= 0 || span > spanMax {
		return nil
	}
	return durationOf(span)
}

func durationOf(span limit.Span) *durationpb.Duration {
	return &durationpb.Duration{
		Seconds: int64(span / microsPerSecond),
		Nanos:   int32(span%microsPerSecond) * 1000,
	}
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

func setTimestamp(m *timestamppb.Timestamp, t limit.Time) *timestamppb.Timestamp {
	m.Seconds, m.Nanos = int64(t/microsPerSecond), int32(t%microsPerSecond)*1000
	return m
}
