package redis

import (
	"cmp"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/shard"
)

// follow begins the trace of a round, if its caller is known.
func (r *round) follow() {
	if r.conn.who.caller == nil {
		return
	}
	r.trace = r.conn.server.config.Tracer.Incoming(nil)
	if r.first() != nil {
		r.span = r.trace.Check()
	}
}

// first returns the first command of the round that needs more than this node, or nil.
func (r *round) first() *command {
	for i := range r.commands {
		if r.commands[i].op != 0 {
			return &r.commands[i]
		}
	}
	return nil
}

// method returns the name of the round's commands, or "pipeline" if they differ. There must be at least one.
func (r *round) method() string {
	first := r.commands[0].verb
	for i := range r.commands {
		if r.commands[i].verb != first {
			return "pipeline"
		}
	}
	return first.nameOf()
}

// count records a command with its reply in the event of the round. The code "" is "ok".
func (r *round) count(c *command, code string) {
	e := &r.event
	if code == "" && (c.op == shard.Check || c.op == shard.Partial) {
		request := shard.Request{Op: c.op}
		e.Counted = decisions.Add(e.Counted, c.policyName(), decisions.Outcome(&request, &c.result.Decision))
	}
	e.Commands = decisions.Add(e.Commands, c.verb.nameOf(), cmp.Or(code, "ok"))
	e.Code = cmp.Or(e.Code, code)
}

// report passes the event of the round to the listeners, after its replies are written.
func (r *round) report() {
	e := &r.event
	e.Method, e.System, e.Protocol, e.Code = r.method(), "redis", "redis", cmp.Or(e.Code, "ok")
	e.Began, e.Took = r.began, time.Since(r.began)
	e.Span, e.Lister, e.CodeOf = &r.trace, r.lister, codeOf
	if r.conn.who.caller != nil {
		e.Caller = r.conn.who.caller.Name()
	}
	// Without a decision, it is not known that such a policy exists.
	if c := r.first(); c != nil && c.result.Err == nil && c.limits == nil {
		e.Policy = c.policy
	}
	trace.Decided(r.span)
	r.conn.server.config.Listeners.Ended(e)
}

// questions lists the requests of the round to shards, for listeners that need them.
func (r *round) questions() []decisions.Asked {
	a := decisions.Asked{Span: r.span}
	for i := range r.commands {
		c := &r.commands[i]
		if c.op == 0 {
			continue
		}
		request := shard.Request{Op: c.op, Namespace: c.namespace, Entries: c.together, Hashed: c.hashed}
		if request.Entries == nil {
			request.Entries = []shard.Entry{{Policy: c.policy, Key: c.key, Cost: c.cost, Limits: c.limits}}
		}
		a.Requests, a.Results = append(a.Requests, request), append(a.Results, c.result)
	}
	if a.Stored = a.Requests; len(a.Requests) == 0 {
		return nil
	}
	return []decisions.Asked{a}
}
