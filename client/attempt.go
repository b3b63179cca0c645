package client

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Attempt is something that is counted when it begins, and whose outcome is told when it is over: a login, a one-time code, a
// job whose cost is known at its end. Its methods may be called concurrently; the first outcome that arrives stands.
type Attempt struct {
	// Decision says whether the attempt may begin, and why not. If it is denied, nothing was counted, and no outcome is told.
	*stintv1.Decision

	client *Client
}

// Attempt reserves what r asks for. If its Decision is allowed, the caller tells the outcome within ttl (0: the server's
// default, 60 s). Otherwise the policy's on_expire decides: a login's should be commit, so that an attempt without an outcome
// counts as failed. r needs no IdempotencyId: the client draws one, so that a retry counts once. The error is an *Error, as of
// Reserve.
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

// Commit spends what was reserved, or what was really spent: one number for each entry of the request. Above the reserved units
// it counts up to the quota. The error is an *Error.
func (a *Attempt) Commit(ctx context.Context, actualCost ...uint64) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Commit{Commit: &stintv1.Commit{ActualCost: actualCost}}})
}

// Cancel gives back what was reserved. The error is an *Error.
func (a *Attempt) Cancel(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}})
}

// Success gives back what was reserved, and clears the failure counters and the lockout ladder. The error is an *Error.
func (a *Attempt) Success(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Success{Success: &stintv1.Success{}}})
}

// Failed spends what was reserved, and climbs the lockout ladder. The error is an *Error.
func (a *Attempt) Failed(ctx context.Context) error {
	return a.settle(ctx, &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Failed{Failed: &stintv1.Failed{}}})
}

// settle tells an outcome. A denied attempt has none to tell.
func (a *Attempt) settle(ctx context.Context, r *stintv1.SettleRequest) error {
	if !a.Allowed {
		return nil
	}
	r.Target = &stintv1.SettleRequest_HoldId{HoldId: a.HoldId}
	_, err := a.client.Settle(ctx, r)
	return err
}
