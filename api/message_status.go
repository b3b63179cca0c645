package api

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
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

// statusesIn fills messages and pointers that the caller has allocated, one of each for a limit.
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
