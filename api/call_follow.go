package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/calllog"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// follower tells traces and the log of calls about each call. Its zero value tells nobody.
type follower struct {
	tracer   *trace.Tracer
	log      *calllog.Log
	policies func() *policy.Set
}

// ending is how a call ended.
type ending struct {
	procedure string
	system    string // in a trace
	begun     time.Time
	took      time.Duration
	asked     any // the message; nil: none
	code      string
	err       error
}

// The protocols of calls in traces.
const (
	systemGRPC    = "grpc"
	systemConnect = "connectrpc"
	systemGate    = "gate"
)

// systemOf returns the protocol of a call through connect.
func systemOf(p connect.Peer) string {
	if p.Protocol == connect.ProtocolConnect {
		return systemConnect
	}
	return systemGRPC
}

// follow begins the trace of a call that is let in.
func (x *exchange) follow(t *trace.Tracer, r *http.Request) {
	x.trace, x.fate = t.Incoming(r.Header["Traceparent"])
}

// ended tells how a call ended, and returns the id of its trace; "": it is not followed. It is cheap for a call that nobody follows,
// and that neither failed nor was slow.
func (f follower) ended(ctx context.Context, e ending) (id string) {
	worth := f.log != nil && f.log.Worth(e.code, e.took)
	if f.tracer == nil && !worth {
		return ""
	}
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	if x == nil {
		return ""
	}
	call := x.trace
	if x.stream { // the batches of which have their own, if they are followed
		call = nil
	}
	id = call.TraceID()
	if worth {
		f.log.Ended(calllog.Call{Method: strings.TrimPrefix(e.procedure, "/"), Code: e.code, Took: e.took, Caller: x.callerName(),
			Policy: f.policyOf(e.asked), Trace: id, Reason: reasonOfFailure(e.err)})
	}
	if call != nil {
		call.End(trace.Answer{System: e.system, Method: e.procedure, Code: e.code, Began: e.begun, Caller: x.callerName()})
	}
	return id
}

func (x *exchange) callerName() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Name()
}

// policyOf returns the policy that a message is about, or the first one. "" if it is none that exists: a log does not repeat what
// somebody has made up.
func (f follower) policyOf(asked any) string {
	var entries []*stintv1.Entry
	switch m := asked.(type) {
	case *stintv1.CheckBatchRequest:
		if len(m.GetChecks()) > 0 {
			entries = m.Checks[0].GetEntries()
		}
	case *stintv1.ReserveRequest:
		entries = m.GetCheck().GetEntries()
	case interface{ GetEntries() []*stintv1.Entry }:
		entries = m.GetEntries()
	case interface{ GetPolicy() string }:
		return f.known(m.GetPolicy())
	}
	if len(entries) == 0 {
		return ""
	}
	return f.known(entries[0].GetPolicy())
}

// known returns the name of a policy, if there is one of that name.
func (f follower) known(name string) string {
	if _, exists := f.policies().Lookup(name); !exists {
		return ""
	}
	return name
}

// reasonOfFailure returns what this node says about a failure of its own: those texts are about nodes and shards, and repeat nothing of
// a request.
func reasonOfFailure(err error) string {
	var failure *shard.Error
	if !errors.As(err, &failure) {
		return ""
	}
	switch failure.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.SessionGone, shard.UnknownOutcome:
		const most = 300
		return shortened(failure.Message, most)
	}
	return ""
}

// Decide implements Decider. What is followed gets a span.
func (e keyEdge) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	if e.tracer == nil || len(requests) == 0 || !decides(requests[0].Op) {
		return e.decide(ctx, requests)
	}
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	switch {
	case x == nil || x.stream || x.fate == trace.Unfollowed:
		return e.decide(ctx, requests)
	case x.fate == trace.Followed:
		check := x.trace.Check()
		for i := range requests {
			requests[i].Trace = check
		}
		results := e.decide(ctx, requests)
		check.End(e.traced(requests, results))
		return results
	}
	results := e.decide(ctx, requests)
	if x.trace == nil && anyDenied(requests, results) {
		if x.trace = e.tracer.Late(); x.trace != nil {
			x.trace.Check().End(e.traced(requests, results))
		}
	}
	return results
}

// decides reports whether an operation is about what a key may use. The others, which ask every shard at once, have no span of their
// own.
func decides(op shard.Op) bool {
	switch op {
	case shard.Check, shard.Peek, shard.Get, shard.Count, shard.Partial, shard.Reserve, shard.Settle, shard.Reset, shard.SetUsed, shard.AddUsed,
		shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride, shard.CorrectUsage:
		return true
	}
	return false
}

// denied reports whether an answer is a denial.
func denied(r *shard.Request, result *shard.Result) bool {
	switch r.Op {
	case shard.Check, shard.Peek, shard.Partial, shard.Reserve:
		return result.Err == nil && !result.Decision.Allowed
	}
	return false
}

func anyDenied(requests []shard.Request, results []shard.Result) bool {
	for i := range results {
		if denied(&requests[i], &results[i]) {
			return true
		}
	}
	return false
}

// traced returns what a span says of requests that were decided together: of one request all, of several how many there were.
func (e keyEdge) traced(requests []shard.Request, results []shard.Result) (t trace.Decision) {
	r, result := &requests[0], &results[0]
	if t.Namespace = r.Namespace; t.Namespace == "" {
		t.Namespace = shard.DefaultNamespace
	}
	if len(r.Entries) > 0 {
		if t.Policy = e.known(r.Entries[0].Policy); r.Entries[0].Limits != nil {
			t.Policy = inlinePolicy
		}
	}
	if len(requests) > 1 {
		t.Checks = len(requests)
		for i := range results {
			if denied(&requests[i], &results[i]) {
				t.Denied++
			} else if results[i].Err != nil {
				t.Failed++
			}
		}
		return t
	}
	if len(r.Entries) > 0 {
		if t.Key = r.Entries[0].Key; r.Hashed {
			if hash, err := e.keys.hash(r.Namespace, t.Key); err == nil {
				t.Key = hash
			}
		}
	}
	if result.Err != nil {
		t.Code = codeOf(result.Err).String()
		return t
	}
	d := &result.Decision
	t.Outcome, t.Cached, t.Replayed = tracedOutcome(r, d), d.Age > 0, d.Replayed
	t.DeniedBy = deniedBy(d)
	if len(t.DeniedBy) > 0 && slices.ContainsFunc(r.Entries, func(e shard.Entry) bool { return e.Limits != nil }) {
		t.DeniedBy = []string{inlinePolicy} // whoever sent the limits has named them
	}
	if d.Position != (shard.Position{}) {
		t.Shard = d.Position.Shard.String()
	}
	if left := remainingOf(d); left != nil {
		t.Remaining, t.HasRemaining = *left, true
	}
	return t
}

// tracedOutcome is the outcome of a decision as metrics have it, and of what they do not count.
func tracedOutcome(r *shard.Request, d *shard.Decision) string {
	switch r.Op {
	case shard.Get:
		return "read"
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.CorrectUsage:
		return "adjusted"
	}
	return outcomeOf(r, d)
}
