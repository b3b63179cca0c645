package api

import (
	"cmp"
	"context"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// forgetEvery is the pause between two rounds of a Forget, while operations on several shards that hold the key come to
// their end.
const forgetEvery = 50 * time.Millisecond

// forget asks every shard to delete its records of a key, until none has any left. The key's own shard is first: it
// refuses a key with bills that are not to end, and leaves the audit record, even if a later shard does not answer.
// Both operations must be granted for the key under every policy.
func (s limitService) forget(ctx context.Context, who string, m *stintv1.ForgetRequest) (
	*stintv1.ForgetResponse, error) {
	namespace, err := forgetProblem(m)
	if err != nil {
		return nil, err
	}
	for _, op := range []auth.Op{auth.Adjust, auth.Override} { //mutant:forget-by-one-grant
		if err := permitted(callerIn(ctx), op, auth.Target{Namespace: namespace, Key: m.Key}); err != nil {
			return nil, err
		}
	}
	key, err := s.Keys.hash(namespace, m.Key)
	if err != nil {
		return nil, err
	}
	shards := s.Shards()
	if shards == 0 {
		return nil, errNoCluster
	}
	f := forgetting{limitService: s, namespace: namespace, key: key, response: &stintv1.ForgetResponse{}}
	own := shard.Of(s.Slots(), namespace, key)
	first, err := decide(ctx, f.Decider, f.requestTo(own, shard.Adjustment{Actor: who, Note: m.Note, Bills: m.Bills}))
	if err != nil { // no other shard was asked
		return nil, err
	}
	for open := f.add(first); ; open = 0 {
		f.met = slot.Set{}
		err := everyShard(ctx, f.Decider, shards,
			func(id shard.ID) shard.Request { return f.requestTo(id, shard.Adjustment{Bills: m.Bills}) },
			func(d *shard.Decision) { open += f.add(d) })
		switch {
		case err != nil:
			return nil, forgetError(err)
		case open == 0 && f.met == slot.All(): //mutant:forget-does-not-wait //mutant:key-of-a-moving-slot-stays
			return f.response, nil
		case !sleep.For(ctx, forgetEvery):
			return nil, errStillOpen
		}
	}
}

var errStillOpen = &shard.Error{Code: shard.Unavailable, RetryAfter: 1e6,
	Message: "an operation on several shards with this key has not ended yet, or a slot is moving; " +
		"what could be ended was: call again, and see that all shards have an owner"}

func forgetProblem(m *stintv1.ForgetRequest) (namespace string, err error) {
	namespace, err = namespaceOf(m.Namespace)
	return namespace, cmp.Or(invalid("key", shard.KeyProblem(m.Key)), invalid("note", noteProblem(m.Note)), err)
}

// forgetting is one call of forget.
type forgetting struct {
	limitService
	namespace, key string                  // key as stored: a hash in a namespace that hashes its keys
	response       *stintv1.ForgetResponse // sums of all rounds
	met            slot.Set                // in this round: each was owned by a shard when this was asked
}

// requestTo returns a request to one shard.
func (f *forgetting) requestTo(id shard.ID, a shard.Adjustment) shard.Request {
	a.Forget = f.key
	return shard.Request{Op: shard.Forget, Namespace: f.namespace, Shard: id, Adjustment: &a}
}

// add adds an answer up, and returns how many records of its shard still name the key.
func (f *forgetting) add(d *shard.Decision) (open uint32) {
	done := d.Answer().Forgot
	slots := d.Slots()
	f.met.Or(&slots)
	f.response.Counters += done.Counters
	f.response.Holds += done.Holds
	f.response.Operations += done.Operations
	f.response.AuditRecords += done.Audit
	if done.More {
		return done.Open + 1
	}
	return done.Open
}

// forgetError marks a failed Forget as possibly begun.
func forgetError(err error) error {
	return alteredError(err, func(told *shard.Error) {
		told.Message += "; other shards may have forgotten the key already: call again"
	})
}
