package redis

import (
	"cmp"
	"time"

	"github.com/stint-io/stint/internal/observe/calllog"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/shard"
)

// followed is what traces and the log of calls know of a round: a round is one call.
type followed struct {
	call   *trace.Call // nil: it is not followed
	check  *trace.Check
	fate   trace.Fate
	failed string // the code of the first command that failed; "": none did
}

// follow begins the trace of a round, if its caller is known.
func (r *round) follow() {
	t := r.conn.server.config.Tracer
	if t == nil || r.conn.who.caller == nil {
		return
	}
	if r.call, r.fate = t.Incoming(nil); r.call != nil && r.asksShards() {
		r.check = r.call.Check()
	}
}

// asksShards reports whether a command of the round needs more than this node.
func (r *round) asksShards() bool {
	for i := range r.commands {
		if r.commands[i].op != 0 {
			return true
		}
	}
	return false
}

// trace returns what follows the requests of the round; nil: nobody does.
func (r *round) trace() shard.Trace {
	if r.check == nil {
		return nil
	}
	return r.check
}

// told tells traces and the log how a round ended, and returns the id of its trace; "": it is not followed. It is cheap for one that
// nobody follows, and that neither failed nor was slow.
func (r *round) told(took time.Duration) (id string) {
	config := &r.conn.server.config
	code := cmp.Or(r.failed, "ok")
	worth := config.Calls.Worth(code, took)
	if len(r.commands) == 0 || r.fate == trace.Unfollowed && !worth {
		return ""
	}
	decided := r.decided()
	if r.fate == trace.Undecided && decided.Denied > 0 {
		if r.call = config.Tracer.Late(); r.call != nil {
			r.check = r.call.Check()
		}
	}
	caller := ""
	if r.conn.who.caller != nil {
		caller = r.conn.who.caller.Name()
	}
	id = r.call.TraceID()
	if worth {
		line := calllog.Call{Method: "redis/" + r.method(), Code: code, Took: took, Caller: caller, Trace: id}
		if decided.Policy != inline {
			line.Policy = decided.Policy
		}
		config.Calls.Ended(line)
	}
	if r.call == nil {
		return ""
	}
	if r.check != nil {
		if decided.Checks == 1 {
			decided.Checks = 0
		}
		r.check.End(decided)
	}
	r.call.End(trace.Answer{System: "redis", Method: r.method(), Code: code, Began: r.began, Caller: caller, Calls: len(r.commands)})
	return id
}

// method is the name of the round's commands, or "pipeline" if there are several.
func (r *round) method() string {
	first := r.commands[0].verb
	for i := range r.commands {
		if r.commands[i].verb != first {
			return "pipeline"
		}
	}
	if first == nil {
		return otherCommands
	}
	return first.name
}

// decided returns what a span says of the round: of one request all, of several how many there were.
func (r *round) decided() (t trace.Decision) {
	var one *command
	for i := range r.commands {
		c := &r.commands[i]
		if c.op == 0 {
			continue
		}
		if t.Checks++; one == nil {
			one = c
		}
		if c.err != nil {
			t.Failed++
		} else if c.op == shard.Check && !c.allowed {
			t.Denied++
		}
	}
	if one == nil {
		return t
	}
	switch t.Namespace = one.namespace; {
	case one.limits != nil || one.policy == "":
		t.Policy = inline
	case one.err == nil: // else nobody has said that there is such a policy
		t.Policy = one.policy
	}
	if t.Checks > 1 {
		return t
	}
	if t.Key = one.key; one.together != nil {
		t.Key = one.together[0].Key
	}
	if len(r.parts) == 1 {
		t.Shard = r.parts[0].id.String()
	}
	if one.err != nil {
		t.Code = codeOf(one.err)
		return t
	}
	t.Outcome, t.Cached = cmp.Or(one.outcome(), "counted"), one.repeated
	if one.op == shard.Check {
		t.Remaining, t.HasRemaining = one.remaining, !one.unlimited
		if !one.allowed {
			t.DeniedBy = []string{cmp.Or(one.limit, inline)}
		}
	}
	if one.op == shard.ReadTally || one.op == shard.Get {
		t.Outcome = "read"
	}
	return t
}
