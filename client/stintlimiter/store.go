package stintlimiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// Store is a limiter.Store over one policy. Any number of goroutines may call it. The errors of its methods are those
// of *client.Client.
type Store struct {
	limits *client.Client
	policy string
}

// New returns a store that asks a policy. The client stays the caller's, who closes it.
func New(limits *client.Client, policy string) *Store { return &Store{limits, policy} }

// Take spends one unit of a key. It returns quota and remaining units of the limit with least left, whether the
// policy allowed it, and from when on another unit may be taken, in nanoseconds since 1970 (math.MaxInt64: never).
func (s *Store) Take(ctx context.Context, key string) (tokens, remaining, reset uint64, ok bool, err error) {
	a, err := s.limits.Allow(ctx, s.policy, key)
	if err != nil {
		return 0, 0, 0, false, err
	}
	at := int64(math.MaxInt64)
	if a.RetryAfter >= 0 {
		at = time.Now().Add(a.RetryAfter).UnixNano()
	}
	return a.Quota, a.Remaining, uint64(at), a.Allowed, nil
}

// Get returns quota and remaining units of the limit of a key that has least left, and changes nothing.
func (s *Store) Get(ctx context.Context, key string) (tokens, remaining uint64, err error) {
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
	_, err := s.limits.Adjust(ctx, &stintv1.AdjustRequest{Policy: s.policy, Key: key,
		Op: &stintv1.AdjustRequest_AddUsed{AddUsed: -int64(min(tokens, math.MaxInt64))}})
	return err
}

// Close does nothing: the client is the caller's.
func (s *Store) Close(context.Context) error { return nil }
