package decisions

import (
	"slices"
	"time"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Event is a call at its end, on any port: a procedure, a batch of a stream, a round of Redis commands, or a question
// at a gate. The port makes it once, when the answer is made and before it is written, and passes it to its Listeners.
// Each listener takes from it what it needs; what is costly to make (outcomes, reasons, ids) is made by methods, for
// the listeners that ask.
type Event struct {
	// Method names the call in metrics, in the log of calls and in traces: "/stint.v1.LimitService/Check",
	// "/gate/NAME", or the name of Redis commands, "pipeline" if a round has several.
	Method string
	// System is the protocol in a trace: "grpc", "connectrpc", "redis" or "gate". Protocol is the finer one of the
	// decision log: "json", "connect", "grpc", "grpc-web", "redis", "gate" or "envoy".
	System, Protocol string
	// Code is "ok" or the name of the error's code. Failure is what this node says about a failure of its own; "":
	// nothing.
	Code, Failure string
	// Caller is the name of the token or role; "": none was asked for.
	Caller string
	// Policy is the first policy that the call names, if Asked does not say it; "": none, or none that exists.
	Policy string
	Began  time.Time
	Took   time.Duration
	// TurnedAway: the call was refused before its message was read. It is counted, and no more.
	TurnedAway bool
	// Counted are the decisions by policy and outcome, one for each entry, and Commands those of a round by name and
	// code. Neighbors that are alike are one Count.
	Counted, Commands []Count
	// Asked are the questions to the shards. A listener reads them by Questions: what is costly to list has a Lister
	// instead, which makes them when they are first wanted; nil: they are listed.
	Asked  []Asked
	Lister func() []Asked
	// CodeOf returns the code of a request's error, and IDOf the id of a decision as its caller got it, "" if none;
	// nil: nobody got any.
	CodeOf func(*shard.Error) string
	IDOf   func(*policy.Set, *shard.Request, *shard.Decision) string
	// Span is what follows the call (package trace); nil: nothing does.
	Span Span
	// TraceID is the id of its trace in hex; "": it is not followed. The first listener may still set it.
	TraceID string

	room   [1]Asked // of Asked and Counted: most calls have one question with one entry
	counts [2]Count
}

// Span is a call that may be followed.
type Span interface{ TraceID() string }

// Count is a number of things that have two names.
type Count struct {
	Name, Kind string // a policy and an outcome, or a command and its code
	N          int
}

// Add counts one more thing at the end of a list.
func Add(counts []Count, name, kind string) []Count {
	if last := len(counts) - 1; last >= 0 && counts[last].Name == name && counts[last].Kind == kind {
		counts[last].N++
		return counts
	}
	return append(counts, Count{name, kind, 1})
}

// Asked is requests that were decided together.
type Asked struct {
	// Requests are as the client has sent them, and Results are about those. Stored are the same requests as the shards
	// got them: with hashes for the keys of namespaces that hash them. Only keys of Stored may leave the call.
	Requests, Stored []shard.Request
	Results          []shard.Result
	Policies         *policy.Set // by which the requests were made; nil: not known
	Span             shard.Trace // follows the requests; nil: nothing does
}

// Questions returns Asked.
func (e *Event) Questions() []Asked {
	if e.Asked == nil && e.Lister != nil {
		e.Asked = e.Lister()
	}
	return e.Asked
}

// Denied reports whether a decision that counts is a denial.
func (e *Event) Denied() bool {
	return slices.ContainsFunc(e.Counted, func(c Count) bool {
		switch c.Kind {
		case "denied", "denied_cached", "challenged", "locked_out":
			return true
		}
		return false
	})
}

// Ask appends what was asked. Decisions that count are added to Counted.
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

// counts reports whether the i-th request came to a decision that counts: it is one event for readers and the decision
// log, however many entries it has. Errors are none, nor is what only looks or changes a key by hand.
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

// Denied reports whether a request was denied, or would be.
func (a *Asked) Denied(i int) bool {
	switch a.Requests[i].Op {
	case shard.Check, shard.Peek, shard.Partial, shard.Reserve:
		return a.Results[i].Err == nil && !a.Results[i].Decision.Allowed
	}
	return false
}

// DenialCounter counts denials by limit. Policy and limit are Inline for limits that came with a request, which may
// have any name. The limit is "lockout" or "block" for the block of a key.
type DenialCounter interface {
	Denied(namespace, policy, limit string)
}

// CountDenials counts every limit that denied, and every block.
func (e *Event) CountDenials(to DenialCounter) {
	for i := range e.Asked {
		a := &e.Asked[i]
		for j := range a.Results {
			r, d := &a.Requests[j], &a.Results[j].Decision
			if !a.counts(j) || d.Replayed || r.Op == shard.Settle {
				continue
			}
			for s, name := range denials(d) {
				if e := EntryOf(r.Entries, s); e != nil && e.Limits != nil {
					to.Denied(r.Namespace, Inline, Inline)
				} else {
					to.Denied(r.Namespace, s.Policy, name)
				}
			}
		}
	}
}

// PolicyOf returns the first policy that the call names, for those who may not repeat what somebody has made up; "":
// none that exists, or limits that came with the request.
func (e *Event) PolicyOf() string {
	if len(e.Asked) == 0 {
		return e.Policy
	}
	if name := e.Asked[0].Policy(); name != Inline {
		return name
	}
	return ""
}

// Policy returns the first policy that was asked about: Inline for limits that came with a request, and "" if there is
// none of the name.
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

// Listener gets every event of a node's ports. It may be called concurrently, must not block, and keeps nothing of the
// event but what it has copied: requests and results are of the call's memory, and may be reused.
type Listener interface{ Ended(*Event) }

// Listeners are those of a node, in the order in which they are told.
type Listeners []Listener

// Ended tells every listener of an event.
func (l Listeners) Ended(e *Event) {
	for _, one := range l {
		one.Ended(e)
	}
}

// CommandCount is the number of commands of a round.
func (e *Event) CommandCount() (n int) {
	for _, c := range e.Commands {
		n += c.N
	}
	return n
}
