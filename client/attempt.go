package client

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Attempt is counted when it begins, and gets its outcome when it is over: a login, a one-time code, a job with a cost
// known at its end. Its methods may be called concurrently; the first outcome that arrives stands.
type Attempt struct {
	// Decision says whether the attempt may begin, and why not. If it is denied, nothing was counted, and it needs no
	// outcome.
	*stintv1.Decision

	client *Client
}

// Attempt reserves the units of r. If its Decision is allowed, the caller must report the outcome within ttl (0 means
// the server's default, 60 s). Otherwise the policy's on_expire decides: for a login it should be commit, so that an
// attempt without an outcome counts as failed. r needs no IdempotencyId: the client draws one, so that a retry counts
// once. The error is an *Error, like Reserve's.
func (c *Client) Attempt(ctx context.Context, r *stintv1.CheckRequest, ttl time.Duration) (*Attempt, error) {
	if r.GetIdempotencyId() == "" {
		r = proto.CloneOf(r)
		r.IdempotencyId = rand.Text()
	}
	reserve := &stintv1.ReserveRequest{Check: r}
	if ttl > 0 {
		reserve.Ttl = durationpb.New(ttl)
	}
	d, err := c.Reserve(ctx, reserve)
	if err != nil {
		return nil, err
	}
	return &Attempt{d, c}, nil
}

// Commit spends the reserved units, or the actual cost: one number for each entry of the request. Above the reserved
// units it counts up to the quota. The error is an *Error.
func (a *Attempt) Commit(ctx context.Context, actualCost ...uint64) error {
	return a.settle(ctx,
		&stintv1.SettleRequest{Action: &stintv1.SettleRequest_Commit{Commit: &stintv1.Commit{ActualCost: actualCost}}})
}

// Cancel gives back the reserved units. The error is an *Error.
func (a *Attempt) Cancel(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}})
}

// Success gives back the reserved units, and clears the failure counters and the lockout ladder. The error is an
// *Error.
func (a *Attempt) Success(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Success{Success: &stintv1.Success{}}})
}

// Failed spends the reserved units, and climbs the lockout ladder. The error is an *Error.
func (a *Attempt) Failed(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Failed{Failed: &stintv1.Failed{}}})
}

// settle reports an outcome. A denied attempt has none.
func (a *Attempt) settle(ctx context.Context, r *stintv1.SettleRequest) error {
	if !a.Allowed {
		return nil
	}
	r.Target = &stintv1.SettleRequest_HoldId{HoldId: a.HoldId}
	_, err := a.client.Settle(ctx, r)
	return err
}
