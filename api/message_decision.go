package api

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// plainDecision has the parts of every decision in one allocation.
type plainDecision struct {
	decision  stintv1.Decision
	decidedAt timestamppb.Timestamp
	position  stintv1.Position
	positions [1]*stintv1.Position
	status    [1]statusMessage
	statuses  [1]*stintv1.LimitStatus
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

// answeredAt returns the instant, in shard time, from which a decision's waits count: when it was made or repeated.
func answeredAt(d *shard.Decision) limit.Time { return d.DecidedAt + limit.Time(d.Age) }
