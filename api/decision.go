package api

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const microsPerSecond = 1_000_000

// timestampMax is the last instant that JSON can say: the end of the year 9999. What lies beyond is absent: never.
const timestampMax limit.Time = 253_402_300_799_999_999

// spanMax is the longest wait that JSON can say: about 10,000 years.
const spanMax limit.Span = 315_576_000_000 * microsPerSecond

// plainDecision is what every decision needs, in one piece of memory.
type plainDecision struct {
	decision  stintv1.Decision
	decidedAt timestamppb.Timestamp
	position  stintv1.Position
	positions [1]*stintv1.Position
	status    [1]statusMessage
	statuses  [1]*stintv1.LimitStatus
}

// statusMessage is a status with the instants that most of them have, in one piece of memory.
type statusMessage struct {
	status               stintv1.LimitStatus
	windowStart, resetAt timestamppb.Timestamp
}

// decisionOf is a decision as a message, without its ids. Its positions are where it was made: of an operation on several
// shards the home first.
func decisionOf(d *shard.Decision) *stintv1.Decision {
	plain := &plainDecision{}
	m := &plain.decision
	m.Allowed, m.Replayed, m.ShadowDenied = d.Allowed, d.Replayed, d.ShadowDenied
	if len(d.Limits) == 1 {
		m.Limits = statusesIn(plain.status[:], plain.statuses[:], d.Limits)
	} else {
		m.Limits = statusesOf(d.Limits)
	}
	m.DeniedBy, m.RetryAfter = deniedBy(d), waitOf(d.RetryAfter)
	m.DecidedAt = setTimestamp(&plain.decidedAt, d.DecidedAt)
	m.HoldExpiresAt = optionalTimestamp(d.HoldExpires)
	plain.position.Shard, plain.position.Epoch, plain.position.Seq = uint32(d.Position.Shard), d.Position.Epoch, d.Position.Seq
	plain.positions[0] = &plain.position
	m.Positions = plain.positions[:]
	if d.Operation != nil {
		for i := range d.Operation.Legs {
			m.Positions = append(m.Positions, positionOf(d.Operation.Legs[i].Decision.Position))
		}
	}
	return m
}

func positionOf(p shard.Position) *stintv1.Position {
	return &stintv1.Position{Shard: uint32(p.Shard), Epoch: p.Epoch, Seq: p.Seq}
}

func statusesOf(limits []shard.LimitStatus) []*stintv1.LimitStatus {
	return statusesIn(make([]statusMessage, len(limits)), make([]*stintv1.LimitStatus, len(limits)), limits)
}

// statusesIn makes messages in memory that is there.
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
	m.Allowed, m.Shadow, m.Unlimited = s.Allowed, s.Shadow, s.Unlimited
	m.WindowStart = setOptionalTimestamp(&message.windowStart, s.WindowStart)
	m.ResetAt = setOptionalTimestamp(&message.resetAt, s.ResetAt)
	m.RetryAfter = waitOf(s.RetryAfter)
	m.Held, m.Granted = s.Held, s.Granted
	m.LockoutLevel, m.BlockedUntil = s.LockoutLevel, optionalTimestamp(s.BlockedUntil)
}

// denies tells whether this limit stood in the way, and was not only watching.
func denies(s *shard.LimitStatus) bool { return !s.Allowed && !s.Shadow && !s.Unlimited }

// stands tells whether this limit or a block of its key stood in the way.
func stands(s *shard.LimitStatus) bool { return denies(s) || s.Blocked }

// deniedBy names the limits that denied, and behind them the lockouts: those are no limits of their own.
func deniedBy(d *shard.Decision) []string {
	if d.Allowed {
		return nil
	}
	var names []string
	for i := range d.Limits {
		if s := &d.Limits[i]; denies(s) {
			names = append(names, s.Policy+"/"+s.Limit)
		}
	}
	for i := range d.Limits {
		if s := &d.Limits[i]; s.Blocked && (i == 0 || !sameKey(s, &d.Limits[i-1])) {
			names = append(names, s.Policy+"/lockout")
		}
	}
	return names
}

// sameKey tells whether two statuses are of limits of one policy on one key.
func sameKey(a, b *shard.LimitStatus) bool { return a.Policy == b.Policy && a.Key == b.Key }

// lockedOut tells whether a block denied.
func lockedOut(d *shard.Decision) bool {
	for i := range d.Limits {
		if d.Limits[i].Blocked {
			return true
		}
	}
	return false
}

// policyOfStatus is the policy that a limit belongs to; nil for one that the request brought along, and for one of a
// policy that is gone.
func policyOfStatus(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) *policy.Policy {
	if e := entryOfStatus(r.Entries, s); e != nil && e.Limits != nil {
		return nil
	}
	p, _ := policies.Lookup(s.Policy)
	return p
}

// reasonOf is the text of the first policy that denied and has one.
func reasonOf(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	for i := range d.Limits {
		if s := &d.Limits[i]; stands(s) {
			if p := policyOfStatus(policies, r, s); p != nil && p.Reason != "" {
				return p.Reason
			}
		}
	}
	return ""
}

// toldAt is the instant, in shard time, from which a decision's waits count: when it was made, or repeated.
func toldAt(d *shard.Decision) limit.Time { return d.DecidedAt + limit.Time(d.Age) }

// waitOf is a wait that ends; nil for none and for limit.Never.
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

// optionalTimestamp is nil for 0, which says "none".
func optionalTimestamp(t limit.Time) *timestamppb.Timestamp {
	if t <= 0 || t > timestampMax {
		return nil
	}
	return timestampOf(t)
}

// setOptionalTimestamp is optionalTimestamp in memory that is there.
func setOptionalTimestamp(m *timestamppb.Timestamp, t limit.Time) *timestamppb.Timestamp {
	if t <= 0 || t > timestampMax {
		return nil
	}
	return setTimestamp(m, t)
}

func timestampOf(t limit.Time) *timestamppb.Timestamp {
	return setTimestamp(&timestamppb.Timestamp{}, t)
}

func setTimestamp(m *timestamppb.Timestamp, t limit.Time) *timestamppb.Timestamp {
	m.Seconds, m.Nanos = int64(t/microsPerSecond), int32(t%microsPerSecond)*1000
	return m
}
