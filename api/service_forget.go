package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// forgetEvery is the pause between two rounds of a Forget, while operations on several shards that hold the key come to
// their end.
const forgetEvery = 50 * time.Millisecond

// forget asks every shard to delete its records of a key, until none has any left. The key's own shard is first: it
// leaves the audit record, even if a later shard does not answer. Both operations must be granted for the key under
// every policy.
func (s limitService) forget(ctx context.Context, who string, m *stintv1.ForgetRequest) (
	*stintv1.ForgetResponse, error) {
	namespace, err := forgetProblem(m)
	if err != nil {
		return nil, err
	}
	for _, op := range []auth.Op{auth.Adjust, auth.Override} { //mutant:forget-by-one-grant
		if !callerIn(ctx).May(op, auth.Target{Namespace: namespace, Key: m.Key}) {
			return nil, auth.NotGrantedError(op)
		}
	}
	key, err := s.keys.hash(namespace, m.Key)
	if err != nil {
		return nil, err
	}
	shards := s.shards()
	if shards == 0 {
		return nil, errNoCluster
	}
	if !m.Bills { //mutant:bills-forgotten-unasked
		// A bill that begins after this look ends with the key, as does one that begins while the call is on its way.
		if bills, err := s.billsOf(ctx, namespace, "", key); err != nil {
			return nil, err
		} else if len(bills) > 0 {
			return nil, &shard.Error{Code: shard.Conflict, Field: "bills", Message: fmt.Sprintf("the key has bills, which would end with it: %s; "+
				"nothing was forgotten: list them (stint usage --key), keep them, and ask for bills too (stint keys forget --bills)", billsText(bills))}
		}
	}
	f := forgetting{limitService: s, namespace: namespace, key: key, response: &stintv1.ForgetResponse{}}
	own := shard.Of(s.slots(), namespace, key)
	first, err := decide(ctx, f.decider, f.requestTo(own, shard.Adjustment{Actor: who, Note: m.Note}))
	if err != nil {
		return nil, ofForget(err)
	}
	for open := f.add(first); ; open = 0 {
		err := everyShard(ctx, f.decider, shards, func(id shard.ID) shard.Request { return f.requestTo(id, shard.Adjustment{}) },
			func(d *shard.Decision) { open += f.add(d) })
		switch {
		case err != nil:
			return nil, ofForget(err)
		case open == 0: //mutant:forget-does-not-wait
			return f.response, nil
		case !pausedFor(ctx, forgetEvery):
			return nil, errStillOpen
		}
	}
}

// billsOf reads the billed periods of a key under one policy, or under all policies if policy is "": those may be
// anywhere in the shard.
func (s limitService) billsOf(ctx context.Context, namespace, policy, key string) (bills []shard.Usage, err error) {
	for query := (shard.UsageQuery{Policy: policy, Key: key}); ; {
		page, err := usagePage(ctx, s.decider, namespace, shard.Of(s.slots(), namespace, key), query)
		if err != nil {
			return nil, err
		}
		bills = append(bills, page.Periods...)
		if query.From = page.Next; page.Next == (shard.UsagePlace{}) {
			return bills, nil
		}
	}
}

// billsText counts bills for display: "3 of plan, 1 of seats".
func billsText(bills []shard.Usage) string {
	counts := make(map[string]int)
	for i := range bills {
		counts[bills[i].Policy]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d of %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

var errStillOpen = &shard.Error{Code: shard.Unavailable, RetryAfter: 1e6, Message: "an operation on several shards with this key has " +
	"not ended yet; what could be ended was: call again, and see that all shards have an owner"}

func forgetProblem(m *stintv1.ForgetRequest) (namespace string, err error) {
	namespace, err = namespaceOf(m.Namespace)
	return namespace, cmp.Or(invalid("key", shard.KeyProblem(m.Key)), invalid("note", noteProblem(m.Note)), err)
}

// forgetting is one call of forget.
type forgetting struct {
	limitService
	namespace, key string
	response       *stintv1.ForgetResponse
}

// requestTo returns a request to one shard.
func (f *forgetting) requestTo(id shard.ID, a shard.Adjustment) shard.Request {
	a.Forget = f.key
	return shard.Request{Op: shard.Forget, Namespace: f.namespace, Shard: id, Adjustment: &a}
}

// add adds an answer up, and returns how many records of its shard still name the key.
func (f *forgetting) add(d *shard.Decision) (open uint32) {
	done := d.Forgot()
	f.response.Counters += done.Counters
	f.response.Holds += done.Holds
	f.response.Operations += done.Operations
	f.response.AuditRecords += done.Audit
	if done.More {
		return done.Open + 1
	}
	return done.Open
}

// ofForget marks a failed Forget as possibly begun.
func ofForget(err error) error {
	var failure *shard.Error
	if !errors.As(err, &failure) {
		return err
	}
	told := *failure
	told.Message = fmt.Sprintf("%s; other shards may have forgotten the key already: call again", failure.Message)
	return &told
}
