package stintlimiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/internal/inbound"
)

// Store is a limiter.Store over one policy. Any number of goroutines may call it. A key may be text that a client
// chose: it is written as by the middleware of stinthttp. The errors of its methods are those of *client.Client, or
// about a key that is empty or no UTF-8.
type Store struct {
	limits *client.Client
	policy string
}

// New returns a store that asks a policy. The client stays the caller's, who closes it.
func New(limits *client.Client, policy string) *Store { return &Store{limits, policy} }

// Take spends one unit of a key. It returns quota and remaining units of the limit with least left, whether the
// policy allowed it, and after a denial from when on another unit may be taken, in nanoseconds since 1970
// (math.MaxInt64: never). That is a whole second, as the middleware cuts the rest off.
func (s *Store) Take(ctx context.Context, key string) (tokens, remaining, reset uint64, ok bool, err error) {
	if key, err = inbound.Key(key); err != nil {
		return 0, 0, 0, false, err
	}
	a, err := s.limits.Allow(ctx, s.policy, key)
	if err != nil {
		return 0, 0, 0, false, err
	}
	return a.Quota, a.Remaining, resetAfter(time.Now().UnixNano(), a.RetryAfter), a.Allowed, nil
}

// resetAfter returns the instant after a wait.
func resetAfter(now int64, wait time.Duration) uint64 {
	const second = int64(time.Second)
	if wait < 0 || int64(wait) > math.MaxInt64-second-now { //mutant:endless-block-ended-long-ago
		return math.MaxInt64
	}
	return uint64((now + int64(wait) + second - 1) / second * second)
}

// Get returns quota and remaining units of the limit of a key that has least left, and changes nothing.
func (s *Store) Get(ctx context.Context, key string) (tokens, remaining uint64, err error) {
	if key, err = inbound.Key(key); err != nil {
		return 0, 0, err
	}
	answer, err := s.limits.Get(ctx, &stintv1.GetRequest{Entries: []*stintv1.Entry{{Policy: s.policy, Key: key}}})
	if err != nil {
		return 0, 0, err
	}
	if l := client.Tightest(answer.Limits); l != nil {
		tokens, remaining = l.Quota, l.Remaining
	}
	return tokens, remaining, nil
}

// Set always fails: the limits are the policy's, and an override changes them for one key.
func (s *Store) Set(context.Context, string, uint64, time.Duration) error {
	return fmt.Errorf("stintlimiter: the limits of policy %q decide, put an override to change them for a key: %w",
		s.policy, errors.ErrUnsupported)
}

// Burst gives a key units back, at most those that it has used.
func (s *Store) Burst(ctx context.Context, key string, tokens uint64) error {
	if tokens == 0 {
		return nil
	}
	key, err := inbound.Key(key)
	if err != nil {
		return err
	}
	_, err = s.limits.Adjust(ctx, &stintv1.AdjustRequest{Policy: s.policy, Key: key,
		Op: &stintv1.AdjustRequest_AddUsed{AddUsed: -int64(min(tokens, math.MaxInt64))}})
	return err
}

// Close does nothing: the client is the caller's.
func (s *Store) Close(context.Context) error { return nil }
