package decisions

import (
	"slices"
	"time"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Event is a call at its end, on any port: a procedure, a batch of a stream, a round of Redis commands, or a question
// at a gate. The port completes it once, when the answer is made (on the Redis port when the replies are written), and
// passes it to its Listeners. Each listener takes from it what it needs; methods make the costly parts (outcomes,
// reasons, ids) for the listeners that ask. An Event must not be copied after Ask, which makes slices of its own room.
type Event struct {
	// Method names the call in metrics, in the log of calls and in traces: "/stint.v1.LimitService/Check",
	// "/gate/NAME", the name of Redis commands, or "pipeline" if a round has several.
	Method string
	// System is the protocol in a trace: "grpc", "connectrpc", "redis" or "gate". Protocol is the finer one of the
	// decision log: "json", "connect", "grpc", "grpc-web", "redis", "gate" or "envoy".
	System, Protocol string
	// Code is "ok" or the name of the error's code. Failure is the text of a failure of this node, or "".
	Code, Failure string
	// Caller is the caller's name in the audit log, as in "token:web"; "" if no authentication was required.
	Caller string
	// Policy is the first policy that the call names, if Asked does not have it; "" if there is none, or it does not
	// exist.
	Policy string
	Began  time.Time
	Took   time.Duration
	// TurnedAway means that the call was refused before its message was read. It is only counted.
	TurnedAway bool
	// Counted are the decisions by policy and outcome, one for each entry, and Commands those of a round by name and
	// code. Equal neighbors share one Count.
	Counted, Commands []Count
	// Asked are the questions to the shards. Listeners read them through Questions: if the list is costly, Lister makes
	// it at the first use; nil if Asked is complete.
	Asked  []Asked
	Lister func() []Asked
	// CodeOf returns the code of a request's error, and IDOf the id of a decision as given to its caller, or "". Both
	// may be nil.
	CodeOf func(*shard.Error) string
	IDOf   func(*policy.Set, *shard.Request, *shard.Decision) string
	// Span traces the call (package trace); nil if it is not traced.
	Span Span
	// TraceID is the id of its trace in hex; "" if it is not traced. The first listener may still set it.
	TraceID string

	room   [1]Asked // of Asked and Counted: most calls have one question with one entry
	counts [2]Count
}

// Span is a call that may be traced.
type Span interface{ TraceID() string }

// Asked is requests that were decided together.
type Asked struct {
	// Requests are as sent by the client, and Results are theirs. Stored are the same requests as sent to the shards:
	// with hashes for the keys of namespaces that hash them. Only keys of Stored may leave the call.
	Requests, Stored []shard.Request
	Results          []shard.Result
	Policies         *policy.Set // the policies under which the requests were made; nil if not known
	Span             shard.Trace // traces the requests; may be nil
}

// Questions returns Asked. If that is missing, it calls Lister first.
func (e *Event) Questions() []Asked {
	if e.Asked == nil && e.Lister != nil {
		e.Asked = e.Lister()
	}
	return e.Asked
}

// Denied reports whether one of the counted decisions is a denial.
func (e *Event) Denied() bool {
	return slices.ContainsFunc(e.Counted, Count.Denied)
}

// Ask appends a question. Decisions that count are added to Counted.
func (e *Event) Ask(a Asked) {
	if e.Asked == nil {
		e.Asked, e.Counted = e.room[:0], e.counts[:0]
	}
	if a.Stored == nil {
		a.Stored = a.Requests
	}
	e.Asked = append(e.Asked, a)
	for i := range a.Results {
		if !a.counts(i) {
			continue
		}
		r := &a.Requests[i]
		outcome := Outcome(r, &a.Results[i].Decision)
		for j := range r.Entries {
			e.Counted = Add(e.Counted, PolicyName(&r.Entries[j]), outcome)
		}
	}
}

// counts reports whether the i-th request led to a decision that counts: it is one event for readers and the decision
// log, regardless of its number of entries. Errors do not count, nor do looks and changes by hand.
func (a *Asked) counts(i int) bool {
	if a.Results[i].Err != nil {
		return false
	}
	switch a.Requests[i].Op {
	case shard.Check, shard.Count, shard.Partial, shard.Reserve, shard.Settle:
		return true
	}
	return false
}

// Denied reports whether the i-th request was denied, or would be.
func (a *Asked) Denied(i int) bool {
	switch a.Requests[i].Op {
	case shard.Check, shard.Peek, shard.Partial, shard.Reserve:
		return a.Results[i].Err == nil && !a.Results[i].Decision.Allowed
	}
	return false
}

// PolicyOf returns the first policy that the call names, for listeners that must not repeat invented names; "" if it
// does not exist, or for limits that came with the request.
func (e *Event) PolicyOf() string {
	if len(e.Asked) == 0 {
		return e.Policy
	}
	if name := e.Asked[0].Policy(); name != Inline {
		return name
	}
	return ""
}

// Policy returns the first policy in the requests: Inline for limits that came with a request, and "" if there is no
// such policy.
func (a *Asked) Policy() string {
	r := &a.Requests[0]
	if len(r.Entries) == 0 {
		return ""
	}
	name := PolicyName(&r.Entries[0])
	if name == Inline {
		return name
	}
	if a.Policies == nil { // a shard that has decided knows the policy
		if a.Results[0].Err != nil {
			return ""
		}
		return name
	}
	if _, exists := a.Policies.Lookup(name); !exists {
		return ""
	}
	return name
}
