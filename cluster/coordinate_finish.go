package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

const (
	// finishWithin bounds what is done behind a caller's back. What is not done by then the shards do (Discharge).
	finishWithin = 2 * time.Second
	// maxBehind bounds the operations that are finished at a time. More are left to the shards.
	maxBehind = 256
)

// behind is the work of a Router that no caller waits for. Close does.
type behind struct {
	group  sync.WaitGroup
	mu     sync.Mutex
	under  int // way
	closed bool
}

// start does something in a goroutine of its own. It refuses when there are too many, or the Router is closed.
func (b *behind) start(do func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.under >= maxBehind {
		return false
	}
	b.under++
	b.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
		defer cancel()
		do(ctx)
		b.mu.Lock()
		b.under--
		b.mu.Unlock()
	})
	return true
}

// Close waits for what the Router does behind its callers' backs, two seconds at most, and begins nothing more of it.
// Requests are decided as before.
func (r *Router) Close() {
	r.behind.mu.Lock()
	r.behind.closed = true
	r.behind.mu.Unlock()
	r.behind.group.Wait()
}

// finishBehind tells the legs that were charged what home has ruled.
func (o *operation) finishBehind(verdict *shard.Verdict, charged []shard.Leg) {
	if messages := o.finishing(verdict, charged); len(messages) > 0 {
		o.router.behind.start(func(ctx context.Context) { o.router.finish(ctx, messages) })
	}
}

// resolveBehind has home say what became of the operation, which is aborted if home knows nothing, and tells the legs.
func (o *operation) resolveBehind(charged []shard.Leg, notAfter limit.Time) {
	about := o.about
	about.Leg = o.home
	for _, leg := range charged {
		if leg.Allowed {
			about.Legs = append(about.Legs, bareLeg(leg))
		}
	}
	if len(about.Legs) == 0 {
		return // whatever was charged after all asks home in its time
	}
	o.router.behind.start(func(ctx context.Context) {
		result := o.send(ctx, o.home, shard.Request{Op: shard.ResolveHome, Operation: &about, NotAfter: notAfter})
		if result.Err == nil {
			o.router.finish(ctx, o.finishing(result.Decision.Operation, charged))
		}
	})
}

// bareLeg names a charge and says no more of it.
func bareLeg(leg shard.Leg) shard.Leg {
	d := &leg.Decision
	return shard.Leg{Shard: leg.Shard, Allowed: leg.Allowed, Decision: shard.Decision{Allowed: d.Allowed,
		DecidedAt: d.DecidedAt, Position: d.Position, Index: d.Index}}
}

// finishing lists the messages by which the legs hear a verdict: those that were charged and are what it is about. A leg
// that it does not cover asks for itself. How an operation was settled home tells them, each its part.
func (o *operation) finishing(verdict *shard.Verdict, charged []shard.Leg) (messages []shard.Duty) {
	if verdict.State == shard.OperationSettled {
		return nil
	}
	for _, leg := range charged {
		if !leg.Allowed || verdict.State != shard.OperationAborted && !covers(verdict, leg) {
			continue
		}
		about := o.about
		about.Legs, about.Leg = []shard.Leg{bareLeg(leg)}, leg.Shard
		about.Verdict = *verdict
		about.Verdict.Legs = nil
		messages = append(messages, shard.Duty{To: leg.Shard, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: o.whole.Namespace, Operation: &about}})
	}
	return messages
}

// covers reports whether a verdict is about this charge.
func covers(verdict *shard.Verdict, leg shard.Leg) bool {
	for i := range verdict.Legs {
		d := &verdict.Legs[i].Decision
		if d.Position == leg.Decision.Position && d.Index == leg.Decision.Index {
			return true
		}
	}
	return false
}

// finish delivers verdicts to legs, and to home that they have arrived.
func (r *Router) finish(ctx context.Context, messages []shard.Duty) {
	r.acknowledge(ctx, messages, r.dispatch(ctx, messages))
}

// acknowledge tells home which verdicts have arrived.
func (r *Router) acknowledge(ctx context.Context, finished []shard.Duty, results []shard.Result) {
	var messages []shard.Duty
	for i := range finished {
		if results[i].Err == nil {
			messages = appendAcknowledgement(messages, &finished[i].Request)
		}
	}
	r.dispatch(ctx, messages)
}

// appendAcknowledgement adds the message by which home hears that a leg has done what was ruled. Only what is committed
// needs it: home remembers that for as long as somebody may not have heard.
func appendAcknowledgement(messages []shard.Duty, finished *shard.Request) []shard.Duty {
	o := *finished.Operation
	if o.Verdict.State != shard.OperationCommitted && o.Verdict.State != shard.OperationSettled {
		return messages
	}
	o.Legs, o.Verdict = nil, shard.Verdict{State: o.Verdict.State}
	return append(messages, shard.Duty{To: o.Home, Request: shard.Request{Op: shard.Acknowledge,
		Namespace: finished.Namespace, Operation: &o}})
}

// dispatch delivers messages, those to one shard together and all shards at the same time, and returns their answers.
func (r *Router) dispatch(ctx context.Context, messages []shard.Duty) []shard.Result {
	results := make([]shard.Result, len(messages))
	places := make(map[shard.ID][]int)
	for i := range messages {
		places[messages[i].To] = append(places[messages[i].To], i)
	}
	var group sync.WaitGroup
	for to, places := range places {
		group.Go(func() {
			batch := make([]shard.Request, len(places))
			for i, place := range places {
				batch[i] = messages[place].Request
			}
			for i, result := range r.Submit(ctx, to, batch) {
				results[places[i]] = result
			}
		})
	}
	group.Wait()
	return results
}

// Discharge does what a shard owes others about operations (shard.State.Duties), and what follows from their answers.
// What fails is owed still. The node of the shard's owner calls it now and then; it returns when all is done, or ctx ends.
// A shard that does not answer keeps nobody waiting but those who wait for it.
func (r *Router) Discharge(ctx context.Context, duties []shard.Duty) {
	places := make(map[shard.ID][]shard.Duty)
	for _, duty := range duties {
		places[duty.To] = append(places[duty.To], duty)
	}
	var group sync.WaitGroup
	for _, duties := range places {
		group.Go(func() { r.dischargeTo(ctx, duties) })
	}
	group.Wait()
}

// dischargeTo does what is owed to one shard.
func (r *Router) dischargeTo(ctx context.Context, duties []shard.Duty) {
	var verdicts, questions []shard.Duty
	for _, duty := range duties {
		if duty.Request.Op == shard.FinishLeg {
			verdicts = append(verdicts, duty)
		} else {
			questions = append(questions, duty)
		}
	}
	for i, result := range r.dispatch(ctx, questions) {
		about := *questions[i].Request.Operation
		if result.Err != nil || about.Leg == about.Home || result.Decision.Operation == nil {
			continue // no answer, no end: only home's word ends a leg
		}
		about.Verdict = *result.Decision.Operation
		about.Verdict.Legs = nil
		verdicts = append(verdicts, shard.Duty{To: about.Leg, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: questions[i].Request.Namespace, Operation: &about}})
	}
	r.finish(ctx, verdicts)
}
