package client

import (
	"context"
	"crypto/rand"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Answer is what most callers need of a decision.
type Answer struct {
	Allowed bool
	// Quota is that of the limit with least left, and Remaining what is left of it: nothing for a denied caller, whose
	// key may be blocked. Both are 0 if no limit counts the key.
	Quota, Remaining uint64
	// RetryAfter is how long a denied caller should wait; below 0 no wait helps.
	RetryAfter time.Duration
}

// Allow spends one unit on one key by one policy. It draws an id, so that a retry counts once; with Config.Leases it
// draws none, so that a lease may answer. The error is an *Error, like Check's.
func (c *Client) Allow(ctx context.Context, policy, key string) (Answer, error) {
	r := Entry(policy, key)
	if c.leases == nil {
		r.IdempotencyId = rand.Text() //mutant:allow-is-not-sent-again
	}
	d, err := c.Check(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Allowed: d.Allowed}
	if l := Tightest(d.Limits); l != nil {
		a.Quota = l.Quota
		if d.Allowed {
			a.Remaining = l.Remaining
		}
	}
	switch {
	case d.Allowed:
	case d.RetryAfter == nil:
		a.RetryAfter = -1
	default:
		a.RetryAfter = d.RetryAfter.AsDuration()
	}
	return a, nil
}

// Tightest returns the first of the limits that can deny with the least left; nil: none of them can deny.
func Tightest(limits []*stintv1.LimitStatus) (tightest *stintv1.LimitStatus) {
	for _, l := range limits {
		if !l.Shadow && !l.Unlimited && (tightest == nil || l.Remaining < tightest.Remaining) {
			tightest = l
		}
	}
	return tightest
}
