package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// KeysOf returns the hasher of a namespace's keys by the policies in force, or nil if its keys are plain. With counted,
// the keys have been counted as hashes, regardless of the policies now. It fails if this node does not yet know how
// they are hashed. It may be called concurrently.
type KeysOf func(namespace string, counted bool) (*keyhash.Namespace, *shard.Error)

// ErrKeysUnknown is the error of KeysOf while this node does not know the cluster's secret of hashed keys.
var ErrKeysUnknown = &shard.Error{Code: shard.Unavailable, RetryAfter: 500e3,
	Message: "the keys of this namespace are hashed, and this node does not know the cluster's secret for that yet; " +
		"nothing was counted; ask again"}

// hash returns the form in which a key is counted and stored.
func (of KeysOf) hash(namespace, key string) (string, error) {
	by, err := of(namespace, false)
	switch {
	case err != nil:
		return "", err
	case by == nil:
		return key, nil
	}
	hash, problem := by.Hash(key)
	if problem != nil {
		return "", shard.Invalidf("key", "%s", problem)
	}
	return hash, nil
}

// keyHasher is the Decider of all client requests. It hashes keys in namespaces that require it, so that code behind it
// never sees plain keys, and puts the client's keys back into the answers. Code above it sees plain keys, which grants
// refer to. Forget, Audit and ListUsage have keys that are not those of entries, and hash them themselves. (R22.)
type keyHasher struct {
	Decider  // gets the hashes
	keys     KeysOf
	policies func() *policy.Set // in force, for the events of calls
}

// Decide implements Decider. It adds requests about keys to the event of the call.
func (e keyHasher) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	if x == nil || len(requests) == 0 || !decides(requests[0].Op) {
		results, _ := e.decide(ctx, requests)
		return results
	}
	asked := decisions.Asked{Requests: requests, Policies: e.policies(), Span: x.trace.Check()}
	if asked.Span != nil {
		for i := range requests {
			requests[i].Trace = asked.Span
		}
	}
	asked.Results, asked.Stored = e.decide(ctx, requests)
	trace.Decided(asked.Span)
	x.event.Ask(asked)
	return asked.Results
}

// decides reports whether an operation concerns what a key may use. The others ask every shard at once, or concern more
// than keys.
func decides(op shard.Op) bool {
	switch op {
	case shard.Check, shard.Peek, shard.Get, shard.Count, shard.Partial, shard.Reserve, shard.Settle, shard.Reset,
		shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.CorrectUsage:
		return true
	}
	return false
}

// decide decides requests with the hashes of their keys. It marks the hashed ones, so that the ids of their decisions
// say so, and returns the requests as decided, or nil if they are unchanged.
func (e keyHasher) decide(
	ctx context.Context, requests []shard.Request,
) (results []shard.Result, stored []shard.Request) {
	for i := range requests {
		if by, err := e.hasherOf(&requests[i]); by != nil || err != nil {
			return e.decideHashed(ctx, requests)
		}
	}
	return e.Decider.Decide(ctx, requests), nil
}

// hasherOf returns the hasher of a request's keys, or nil.
func (e keyHasher) hasherOf(r *shard.Request) (*keyhash.Namespace, *shard.Error) {
	switch {
	case r.Op.AboutShard(), r.Op == shard.Settle && !r.Settlement.Target.Hashed:
		return nil, nil
	}
	return e.keys(r.Namespace, r.Op == shard.Settle)
}

// decideHashed hashes the keys that must be hashed, and decides the requests.
func (e keyHasher) decideHashed(
	ctx context.Context, requests []shard.Request,
) (results []shard.Result, stored []shard.Request) {
	hashed, refused := make([]shard.Request, 0, len(requests)), []*shard.Error(nil)
	for i := range requests {
		r, err := e.hashed(&requests[i])
		if err == nil {
			hashed = append(hashed, r)
			continue
		}
		if refused == nil {
			refused = make([]*shard.Error, len(requests))
		}
		refused[i] = err
	}
	var decided []shard.Result
	if len(hashed) > 0 {
		decided = e.Decider.Decide(ctx, hashed)
	}
	if refused == nil {
		for i := range decided {
			reveal(&decided[i], &hashed[i], &requests[i])
		}
		return decided, hashed
	}
	results, stored = make([]shard.Result, len(requests)), slices.Clone(requests)
	next := 0
	for i := range requests {
		if results[i].Err = refused[i]; refused[i] == nil {
			results[i], stored[i] = decided[next], hashed[next]
			reveal(&results[i], &hashed[next], &requests[i])
			next++
		}
	}
	return results, stored
}

// hashed returns a request as it is decided. It marks the caller's request, and leaves the keys in it as they are.
func (e keyHasher) hashed(r *shard.Request) (shard.Request, *shard.Error) {
	below := *r
	by, err := e.hasherOf(r)
	if err != nil || by == nil {
		return below, err //mutant:plain-key-without-the-secret
	}
	if r.Op == shard.Settle {
		settlement := *r.Settlement
		settlement.Target.Hashed = false
		below.Settlement = &settlement
	}
	below.Entries = slices.Clone(r.Entries)
	for i := range below.Entries {
		hash, problem := by.Hash(r.Entries[i].Key)
		if problem != nil {
			return below, shard.Invalidf(fmt.Sprintf("entries[%d].key", i), "%s", problem)
		}
		below.Entries[i].Key = hash //mutant:api-passes-plain-keys
	}
	r.Hashed, below.Hashed = true, true
	return below, nil
}

// reveal puts the client's keys into the result of a request that was decided with their hashes. It does not change
// memory that the result shares.
func reveal(result *shard.Result, hashed, sent *shard.Request) {
	if !hashed.Hashed {
		return
	}
	if err := result.Err; err != nil {
		told := *err
		told.Message = revealText(told.Message, hashed.Entries, sent.Entries)
		result.Err = &told
		return
	}
	d := &result.Decision
	unhash := func(key *string) {
		if i := slices.IndexFunc(hashed.Entries, func(e shard.Entry) bool { return e.Key == *key }); i >= 0 {
			*key = sent.Entries[i].Key
		}
	}
	d.Limits = slices.Clone(d.Limits)
	for i := range d.Limits {
		unhash(&d.Limits[i].Key)
	}
	if len(d.Answer().Fired) > 0 { //mutant:fired-under-a-hash
		d.System = new(*d.System)
		d.System.Fired = slices.Clone(d.System.Fired)
		for i := range d.System.Fired {
			unhash(&d.System.Fired[i].Key)
		}
	}
}

// revealText replaces hashes by keys in a text, the longest first: a parent's hash is a part of others.
func revealText(text string, hashed, sent []shard.Entry) string {
	order := make([]int, len(hashed))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(len(hashed[b].Key), len(hashed[a].Key)) })
	var pairs []string
	for _, i := range order {
		pairs = append(pairs, hashed[i].Key, sent[i].Key)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// stale wraps Config.Stale. It does not answer a request with keys that cannot be hashed: Decide gives the reason.
func (e keyHasher) stale(
	read func(shard.Request) (shard.Decision, time.Duration, bool),
) func(shard.Request) (shard.Decision, time.Duration, bool) {
	if read == nil {
		return nil
	}
	return func(r shard.Request) (shard.Decision, time.Duration, bool) {
		below, err := e.hashed(&r)
		if err != nil {
			return shard.Decision{}, 0, false
		}
		d, behind, ok := read(below)
		result := shard.Result{Decision: d}
		reveal(&result, &below, &r)
		return result.Decision, behind, ok
	}
}
