package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Teller tells those who listen of each decision that this node answers, on every port, once the answer is made. It is immutable, and
// may be used concurrently; nil tells nobody. Each call that is counted in stint_decisions_total is one event, however many entries
// it has.
type Teller struct {
	Bus  *decisions.Bus
	Node string // id of this node
	// Keys hashes the keys of namespaces that ask for it, which nobody is told.
	Keys KeysOf
}

// Listening reports whether anybody wants to know. It costs one atomic load.
func (t *Teller) Listening() bool { return t != nil && t.Bus.Listening() }

// madeDecision is what is told of a decision when its answer is made.
type madeDecision struct {
	request  *shard.Request
	decision *shard.Decision
	outcome  string
	reason   string
	id       string // "": it has none, or is a hold, whose id nobody else may know
}

// asked is who has asked for decisions, and how.
type asked struct {
	token    string
	protocol string
	began    time.Time // zero: nobody listened then
	counted  bool      // keys of hashed namespaces are hashes already
	trace    *trace.Call
}

// note keeps a decision until the answer to its call is made.
func (x *exchange) note(d madeDecision) { x.made = append(x.made, d) }

// tellMade tells the decisions of a call, whose answer is made.
func (x *exchange) tellMade() {
	how := asked{token: x.callerName(), protocol: x.protocolName(), began: x.began}
	if !x.stream {
		how.trace = x.trace
	}
	for i := range x.made {
		x.teller.tell(&x.made[i], &how)
	}
	x.made = nil
}

// exchange returns the exchange of a call, if somebody wants to know of its decisions; else nil.
func (t *Teller) exchange(ctx context.Context) *exchange {
	if !t.Listening() {
		return nil
	}
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// protocolName is how a call was asked.
func (x *exchange) protocolName() string {
	kind := x.header.Get("Content-Type")
	switch {
	case x.protocol != "":
		return x.protocol
	case x.header == nil:
		return "grpc"
	case strings.HasPrefix(kind, "application/grpc-web"):
		return "grpc-web"
	case strings.HasPrefix(kind, "application/grpc"):
		return "grpc"
	case strings.Contains(kind, "json"):
		return "json"
	}
	return "connect"
}

// part returns an exchange for a part of a stream, whose decisions are told with the answer to that part.
func (x *exchange) part(who *auth.Caller) *exchange {
	return &exchange{header: x.header, remote: x.remote, port: x.port, protocol: x.protocol, teller: x.teller, caller: who, began: time.Now(),
		trace: x.trace, fate: x.fate, stream: x.stream}
}

// TellRedis tells a decision of the Redis protocol, whose keys are as they are counted. began is when its command was read; call
// follows it, and may be nil.
func (t *Teller) TellRedis(r *shard.Request, d *shard.Decision, outcome string, who *auth.Caller, began time.Time, call *trace.Call) {
	t.tell(&madeDecision{request: r, decision: d, outcome: outcome},
		&asked{token: who.Name(), protocol: "redis", began: began, counted: true, trace: call})
}

func (t *Teller) tell(made *madeDecision, how *asked) {
	r, d := made.request, made.decision
	kind, at := kindOf(r, d), mainEntry(r, d)
	watched, weight := t.Bus.Draw(kind, shownPolicy(&r.Entries[at]))
	if !watched && weight == 0 {
		return
	}
	e := &decisions.Event{Kind: kind, Outcome: made.outcome, Namespace: r.Namespace, Entry: t.entry(r, at, how.counted), Allowed: d.Allowed,
		DeniedBy: deniedBy(d), Reason: made.reason, Remaining: remainingOf(d), ShadowDenied: d.ShadowDenied, Replayed: d.Replayed, Cached: d.Age > 0,
		Shard: uint32(d.Position.Shard), Epoch: d.Position.Epoch, Seq: d.Position.Seq, DecisionID: made.id, Node: t.Node, Token: how.token,
		Protocol: how.protocol, TraceID: how.trace.TraceID()}
	if d.RetryAfter > 0 && d.RetryAfter <= spanMax {
		e.RetryAfterUS = int64(d.RetryAfter)
	}
	now := time.Now()
	if e.At = now.UTC(); d.DecidedAt != 0 {
		e.At = time.UnixMicro(int64(toldAt(d))).UTC()
	}
	if !how.began.IsZero() {
		e.DurationMicros = now.Sub(how.began).Microseconds()
	}
	for i := range r.Entries {
		if i != at {
			e.Others = append(e.Others, t.entry(r, i, how.counted))
		}
	}
	t.Bus.Put(e, weight)
}

func kindOf(r *shard.Request, d *shard.Decision) decisions.Kind {
	switch {
	case r.Op == shard.Settle:
		return decisions.Settled
	case !d.Allowed:
		return decisions.Denied
	case d.ShadowDenied:
		return decisions.ShadowDenied
	}
	return decisions.Allowed
}

// mainEntry returns the index of the entry that an event is about in the first place.
func mainEntry(r *shard.Request, d *shard.Decision) int {
	if d.Allowed || len(r.Entries) == 1 {
		return 0
	}
	for i := range d.Limits {
		if s := &d.Limits[i]; stands(s) {
			at := slices.IndexFunc(r.Entries, func(e shard.Entry) bool { return e.Policy == s.Policy && e.Key == s.Key })
			return max(at, 0)
		}
	}
	return 0
}

// shownPolicy is the policy of an entry as it is told.
func shownPolicy(e *shard.Entry) string {
	if e.Limits != nil {
		return inlinePolicy
	}
	return e.Policy
}

// entry is an entry of a request as it is told: with the key as it is counted.
func (t *Teller) entry(r *shard.Request, i int, counted bool) decisions.Entry {
	from := &r.Entries[i]
	e := decisions.Entry{Policy: shownPolicy(from), Tier: from.Tier, Key: from.Key, Cost: from.Cost}
	hashed := r.Hashed || r.Op == shard.Settle && r.Settlement.Target.Hashed // a settlement is marked by its id
	if hashed && !counted {
		e.Key = ""
		if by, unknown := t.Keys(r.Namespace, r.Op == shard.Settle); unknown == nil && by != nil {
			e.Key, _ = by.Hash(from.Key)
		}
	}
	return e
}

// remainingOf returns what is left of the limit with least; nil: no limit can deny.
func remainingOf(d *shard.Decision) *uint64 {
	var least *uint64
	for i := range d.Limits {
		s := &d.Limits[i]
		if s.Blocked {
			return new(uint64)
		}
		if !s.Shadow && !s.Unlimited && (least == nil || s.Remaining < *least) {
			left := s.Remaining
			least = &left
		}
	}
	return least
}

// tellOf notes a decision of a call for those who listen. policies are those by which it was made.
func (s limitService) tellOf(ctx context.Context, policies *policy.Set, r *shard.Request, d *shard.Decision, outcome, id string) {
	x := s.teller.exchange(ctx)
	if x == nil {
		return
	}
	if r.Op == shard.Reserve {
		id = ""
	}
	made := madeDecision{request: r, decision: d, outcome: outcome, id: id}
	if !d.Allowed {
		made.reason = reasonOf(policies, r, d)
	}
	x.note(made)
}
