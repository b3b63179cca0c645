package inbound

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// Checker decides. *client.Client is one.
type Checker interface {
	Check(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error)
}

// ErrNoKey is in the chain of the error about a request that does not say whom it counts for. Nothing was counted.
var ErrNoKey = errors.New("the request does not say whom it counts for")

// Within is how long a request waits for its decision by default: a shard whose owner was killed has another one by then.
const Within = 2 * time.Second

// Limiter counts requests of type R. It does not change while it is used.
type Limiter[R any] struct {
	Limits    Checker
	Namespace string // "": the client's
	Entries   []Entry[R]
	Cost      func(R) (uint64, error) // units that each entry spends; nil: 1
	Within    time.Duration
	Open      bool // without a decision the request passes
	NoIDs     bool // requests have no ids: policies' deny_cache applies, and what may have been counted is not asked again
}

// Entry is a policy, and whom a request counts for.
type Entry[R any] struct {
	Policy string
	Key    func(R) (string, error)
	Parts  []Part[R] // in place of Key
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

// CheckParts panics if an entry has no parts, or one without a name; what says where. Such a key would be shared by all.
func CheckParts[R any](what, policy string, parts []Part[R]) {
	names := map[string]bool{"": true}
	for _, part := range parts {
		if names[part.Name] || part.Value == nil {
			panic(fmt.Sprintf("%s: policy %s: each part of a key has a name of its own, and a value", what, policy))
		}
		names[part.Name] = true
	}
	if len(parts) == 0 {
		panic(fmt.Sprintf("%s: policy %s: the key has no parts", what, policy))
	}
}

// Decide counts a request. An error wraps ErrNoKey or is what Limits gave. With an error, passes says that the request is
// carried out all the same. Each request gets a random id, so that retries count once; one that a stranger chose would be a
// free pass.
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
	// Whoever hangs up before the decision would pass uncounted, and so would all who come after somebody who makes too many keys.
	return d, err != nil && l.Open && Undecided(err) && !noRoom(err) && ctx.Err() == nil, err
}

func noRoom(err error) bool {
	var failure *client.Error
	return errors.As(err, &failure) && failure.NoRoom()
}

// Undecided reports whether an error says that the cluster could not decide. Any other is an answer, or our own mistake.
func Undecided(err error) bool {
	var failure *client.Error
	if !errors.As(err, &failure) {
		return false
	}
	switch failure.Code {
	case "unavailable", "deadline_exceeded", "aborted", "canceled", "resource_exhausted", "internal", "unknown":
		return true
	}
	return false
}

// Unknown reports whether an error says that a policy with unknown_key: deny does not know the key. A policy that does not exist is
// not the sender's fault.
func Unknown(err error) bool {
	var failure *client.Error
	return errors.As(err, &failure) && failure.Code == "not_found" && keyField.MatchString(failure.Message)
}

// keyField begins the message of an error about the key of an entry.
var keyField = regexp.MustCompile(`^entries\[\d+\]\.key: `)
