package api

import (
	"strings"
	"time"

	"github.com/stint-io/stint/api/gates"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
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
		e.Policy = p.policyNameOf(x.message)
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

// policyNameOf returns the first policy that a message names, or "" if there is no such policy: a log does not repeat
// invented names. The message may be nil.
func (p reporter) policyNameOf(message any) string {
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
