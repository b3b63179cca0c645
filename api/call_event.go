package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api/gates"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// reporter makes the event of a call at its end, on every port of this package, and passes it to the listeners.
type reporter struct {
	listeners decisions.Listeners
	policies  func() *policy.Set
	idOf      func(*policy.Set, *shard.Request, *shard.Decision) string // the id that a caller gets for a decision
}

// ended reports the end of a call with its answer ready.
func (p reporter) ended(x *exchange, procedure, code string, began time.Time, err error) {
	e := &x.event
	e.Method, e.Code, e.Began, e.Took = procedure, code, began, time.Since(began)
	e.Caller, e.Span, e.CodeOf, e.IDOf = x.callerName(), &x.trace, codeNameOf, p.idOf
	e.System, e.Protocol = systemConnect, x.protocolName()
	switch {
	case strings.HasPrefix(procedure, gates.Prefix):
		e.System, e.Protocol = systemGate, systemGate
	case strings.HasPrefix(e.Protocol, systemGRPC):
		e.System = systemGRPC
	}
	if procedure == EnvoyProcedure { // its callers get no ids
		e.Protocol, e.IDOf = "envoy", nil
	}
	if err != nil {
		e.Failure = failureText(err)
	}
	if len(e.Asked) == 0 {
		e.Policy = p.policyOf(x.message)
	}
	p.listeners.Ended(e)
}

// turnedAway counts a call that was refused before its message was read.
func (p reporter) turnedAway(procedure, code string) {
	p.listeners.Ended(&decisions.Event{Method: procedure, Code: code, TurnedAway: true})
}

// The protocols of calls in traces.
const (
	systemGRPC    = "grpc"
	systemConnect = "connectrpc"
	systemGate    = "gate"
)

// protocolName returns the protocol of the call.
func (x *exchange) protocolName() string {
	if x.header == nil {
		return "grpc"
	}
	kind := ""
	if values := x.header["Content-Type"]; len(values) > 0 {
		kind = values[0]
	}
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		return "grpc-web"
	case strings.HasPrefix(kind, "application/grpc"):
		return "grpc"
	case strings.Contains(kind, "json"):
		return "json"
	}
	return "connect"
}

func (x *exchange) callerName() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Name()
}

// codeNameOf returns the name of an error's code.
func codeNameOf(err *shard.Error) string { return codeOf(err).String() }

// policyOf returns the first policy that a message names, or "" if there is no such policy: a log does not repeat
// invented names. The message may be nil.
func (p reporter) policyOf(message any) string {
	name := ""
	var entries []*stintv1.Entry
	switch m := message.(type) {
	case *stintv1.CheckBatchRequest:
		if len(m.GetChecks()) > 0 {
			entries = m.Checks[0].GetEntries()
		}
	case *stintv1.ReserveRequest:
		entries = m.GetCheck().GetEntries()
	case interface{ GetEntries() []*stintv1.Entry }:
		entries = m.GetEntries()
	case interface{ GetPolicy() string }:
		name = m.GetPolicy()
	}
	if len(entries) > 0 {
		name = entries[0].GetPolicy()
	}
	if _, exists := p.policies().Lookup(name); !exists {
		return ""
	}
	return name
}

// failureText returns the text of a failure of this node. Such texts are about nodes and shards, and repeat nothing of
// a request.
func failureText(err error) string {
	failure, ok := errors.AsType[*shard.Error](err)
	if !ok {
		return ""
	}
	switch failure.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.SessionGone, shard.UnknownOutcome:
		const most = 300
		return shortened(failure.Message, most)
	}
	return ""
}

// Decide implements Decider. It adds requests about keys to the event of the call.
func (e keyEdge) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
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

// bounded sets a deadline on a call without one.
func (g *gatekeeper) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		if l, limited := ctx.Value(limitedKey{}).(*limitedCall); !limited || !l.unasked {
			return ctx, func() {}
		}
	}
	return context.WithTimeout(ctx, g.timeout)
}

// coded reports the end of a call, and returns the error with its code, or nil.
func (g *gatekeeper) coded(
	ctx context.Context, procedure string, began time.Time, err error,
) (coded *connect.Error) {
	code := "ok"
	if err != nil {
		coded = codedError(err)
		code = coded.Code().String()
	}
	x := exchangeOf(ctx)
	if x.gate != "" {
		procedure, code = x.gate, x.gateCode
	}
	g.reporter.ended(x, procedure, code, began, err)
	return coded
}

// readOnly marks a procedure that may be called with HTTP GET.
var readOnly = connect.WithIdempotency(connect.IdempotencyNoSideEffects)

// plain removes the prefix of the protobuf library's errors and shortens the text. The space in that prefix is one of
// two characters, chosen at random for each build of a program.
func plain(err error) string {
	const most = 300
	text := strings.TrimPrefix(err.Error(), "proto:")
	return shortened(strings.TrimLeft(text, " \u00a0"), most)
}
