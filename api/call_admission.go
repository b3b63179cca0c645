package api

import (
	"context"
	"sync/atomic"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

// entriesUnderWay bounds the entries of all calls with answers not yet written. Until then, an entry with two limits
// and an explanation takes about 4 KB: half a GB in all.
const entriesUnderWay = 128 << 10

// admission counts the entries under way. It may be used concurrently.
type admission struct{ taken atomic.Int64 }

// take reserves room for n entries, or returns false if there is too little. A call may take at most as much as it
// leaves to others, so a few large answers that are not read, which may stay for answerWithin, never stop the small
// calls.
func (r *admission) take(n int64) bool {
	if entriesUnderWay-r.taken.Add(n) < n {
		r.taken.Add(-n)
		return false
	}
	return true
}

func (r *admission) give(n int64) { r.taken.Add(-n) }

var errNoRoom = &shard.Error{Code: shard.Overloaded, RetryAfter: 50e3,
	Message: "too many entries are under way on this node; nothing was counted; ask again"}

// enter takes room for a call's message, and keeps the message for the event of the call. The call's exchange gives the
// room back when the answer is written.
func enter(ctx context.Context, message any) error {
	x, n := exchangeOf(ctx), weigh(message)
	if !x.admission.take(n) {
		return errNoRoom
	}
	x.taken += n
	x.message = message
	return nil
}

// admitted answers a call if there is time left, its message could be read, and there is room for it.
func admitted[Req, Res any, P pointer[Req]](
	ctx context.Context, c *call[Req, P], answer func(context.Context, P) (*Res, error),
) (*Res, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.problem(); err != nil {
		return nil, err
	}
	if err := enter(ctx, P(&c.message)); err != nil {
		return nil, err
	}
	return answer(ctx, &c.message)
}

// weigh counts the entries of a message, up to the allowed number: a message with more is refused anyway.
func weigh(message any) int64 {
	switch m := message.(type) {
	case interface{ GetEntries() []*stintv1.Entry }:
		return int64(max(1, min(len(m.GetEntries()), entriesMax)))
	case *stintv1.CheckBatchRequest:
		var sum int64
		for _, check := range m.Checks[:min(len(m.Checks), checksMax)] {
			sum += weigh(check)
		}
		return max(1, sum)
	case *stintv1.ReserveRequest:
		return weigh(m.GetCheck())
	case *stintv1.SettleRequest: // an entry takes more than entryBytes in an id
		const entryBytes = 8
		return int64(1 + min((len(m.GetHoldId())+len(m.GetDecisionId()))/entryBytes, entriesMax-1))
	case *stintv1.AuditRequest: // four records weigh as much as one entry
		return auditCountMax / 4
	case *stintv1.ListUsageRequest:
		return usageSizeMax / 4
	case *stintv1.ListKeysRequest, *stintv1.TopRequest:
		return keysCountMax / 4
	}
	return 1
}
