package inbound

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// Checker decides. *client.Client is one.
type Checker interface {
	Check(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error)
}

// ErrNoKey is in the chain of the error about a request without a key. Nothing was counted.
var ErrNoKey = errors.New("the request does not say whom it counts for")

// Within is the default wait for a decision: by then a shard has another owner after the death of one.
const Within = 2 * time.Second

// Limiter counts requests of type R. It must not be changed while it is used.
type Limiter[R any] struct {
	Limits    Checker
	Namespace string // "" means the client's
	Entries   []Entry[R]
	Cost      func(R) (uint64, error) // units that each entry spends; nil means 1
	Within    time.Duration           // bounds the wait for a decision; 0 leaves no time for any
	Open      bool                    // a request without a decision passes
	// NoIDs sends requests without ids: policies' deny_cache applies, and a request that may have been counted is not
	// retried.
	NoIDs bool
}

// Entry is a policy and the key that a request counts for.
type Entry[R any] struct {
	Policy string
	Key    func(R) (string, error) // may return text of a client: it goes through the function Key
	Parts  []Part[R]               // in place of Key
}

// key makes the key of a request.
func (e *Entry[R]) key(r R) (string, error) {
	if e.Parts != nil {
		return keyOf(e.Parts, r)
	}
	text, err := e.Key(r)
	if err != nil {
		return "", err
	}
	return Key(text)
}

// Decide counts a request. The error wraps ErrNoKey or is that of Limits. With an error, passes means that the request
// is to be carried out anyway. Each request gets a random id, so that retries count once; an id that a client chose
// would be a free pass.
func (l *Limiter[R]) Decide(ctx context.Context, r R) (d *stintv1.Decision, passes bool, err error) {
	check := &stintv1.CheckRequest{Namespace: l.Namespace}
	if !l.NoIDs {
		check.IdempotencyId = rand.Text()
	}
	cost := uint64(1)
	if l.Cost != nil {
		if cost, err = l.Cost(r); err != nil {
			return nil, false, fmt.Errorf("%w: its cost: %w", ErrNoKey, err)
		}
	}
	for _, e := range l.Entries {
		key, err := e.key(r)
		if err != nil {
			return nil, false, fmt.Errorf("%w: policy %s: %w", ErrNoKey, e.Policy, err)
		}
		check.Entries = append(check.Entries, &stintv1.Entry{Policy: e.Policy, Key: key, Cost: &cost})
	}
	within, cancel := context.WithTimeout(ctx, l.Within)
	defer cancel()
	d, err = l.Limits.Check(within, check)
	// Otherwise a client that hangs up before the decision would pass uncounted, and so would all clients after one
	// that makes too many keys.
	var failure *client.Error
	return d, errors.As(err, &failure) && l.Open && failure.NoDecision() && ctx.Err() == nil, err
}
