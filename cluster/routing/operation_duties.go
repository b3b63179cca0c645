package routing

import (
	"context"
	"slices"
	"sync"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// finishBehind tells the charged legs home's ruling, in the background.
func (o *operation) finishBehind(verdict *shard.Verdict, charged []shard.Leg) {
	if messages := o.finishing(verdict, charged); len(messages) > 0 {
		o.router.background.start(func(ctx context.Context) { o.router.finish(ctx, messages) })
	}
}

// resolveBehind asks home in the background for the outcome of the operation, which home aborts if it does not know it,
// and tells the legs.
func (o *operation) resolveBehind(charged []shard.Leg, notAfter limit.Time) {
	header := o.header
	header.Leg = o.home
	for _, leg := range charged {
		if leg.Allowed {
			header.Legs = append(header.Legs, bareLeg(leg))
		}
	}
	if len(header.Legs) == 0 {
		return // a leg that was charged after all asks home later
	}
	o.router.background.start(func(ctx context.Context) {
		//mutant:leg-released-without-home
		result := o.send(ctx, o.home, shard.Request{Op: shard.ResolveHome, Operation: &header, NotAfter: notAfter})
		if result.Err == nil {
			o.router.finish(ctx, o.finishing(result.Decision.Operation, charged))
		}
	})
}

// bareLeg returns a leg that only identifies its charge.
func bareLeg(leg shard.Leg) shard.Leg {
	d := &leg.Decision
	return shard.Leg{Slot: leg.Slot, Allowed: leg.Allowed, Decision: shard.Decision{Allowed: d.Allowed,
		DecidedAt: d.DecidedAt, Position: d.Position, Index: d.Index}}
}

// finishing returns the messages that tell the charged legs a verdict. Unless the verdict is an abort, a leg that it
// does not cover gets no message and asks home itself. Settlements are not among them: home tells each leg its own
// part.
func (o *operation) finishing(verdict *shard.Verdict, charged []shard.Leg) (messages []shard.Duty) {
	if verdict.State == shard.OperationSettled {
		return nil
	}
	for _, leg := range charged {
		if !leg.Allowed || verdict.State != shard.OperationAborted && !covers(verdict, leg) {
			continue
		}
		header := o.header
		header.Legs, header.Leg = []shard.Leg{bareLeg(leg)}, leg.Slot
		header.Verdict = *verdict
		header.Verdict.Legs = nil
		messages = append(messages, shard.Duty{To: leg.Slot, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: o.whole.Namespace, Entries: o.keysAt(leg.Slot), Operation: &header}})
	}
	return messages
}

// keysAt names the keys of a leg for the nodes on the way, so that only the denials of these keys end. The leg itself
// knows its keys.
func (o *operation) keysAt(id slot.ID) (entries []shard.Entry) {
	for i, at := range o.at {
		if at == id {
			e := &o.whole.Entries[i]
			entries = append(entries, shard.Entry{Policy: e.Policy, Key: e.Key, Cost: 1})
		}
	}
	return entries
}

// covers reports whether a verdict includes this charge.
func covers(verdict *shard.Verdict, leg shard.Leg) bool {
	return slices.ContainsFunc(verdict.Legs, func(l shard.Leg) bool {
		return l.Decision.Position == leg.Decision.Position && l.Decision.Index == leg.Decision.Index
	})
}

// finish delivers verdicts to the legs, and tells home which have arrived.
func (r *Router) finish(ctx context.Context, messages []shard.Duty) {
	r.acknowledge(ctx, messages, r.dispatch(ctx, messages))
}

// acknowledge tells home which verdicts have arrived.
func (r *Router) acknowledge(ctx context.Context, finished []shard.Duty, results []shard.Result) {
	var messages []shard.Duty
	for i := range finished {
		if results[i].Err == nil { //mutant:leg-acknowledged-unheard
			messages = appendAcknowledgement(messages, &finished[i].Request)
		}
	}
	r.dispatch(ctx, messages)
}

// appendAcknowledgement adds the message that tells home that a leg has carried out a ruling. Only a commit or a
// settlement needs it: home remembers those until all legs have heard.
func appendAcknowledgement(messages []shard.Duty, finished *shard.Request) []shard.Duty {
	o := *finished.Operation
	if o.Verdict.State != shard.OperationCommitted && o.Verdict.State != shard.OperationSettled {
		return messages
	}
	o.Legs, o.Verdict = nil, shard.Verdict{State: o.Verdict.State}
	return append(messages, shard.Duty{To: o.Home, Request: shard.Request{Op: shard.Acknowledge,
		Namespace: finished.Namespace, Operation: &o}})
}

// dispatch delivers messages and returns their answers. Messages to one shard travel together; all shards are served
// concurrently.
func (r *Router) dispatch(ctx context.Context, messages []shard.Duty) []shard.Result {
	if len(messages) == 0 {
		return nil
	}
	slots, _, err := r.slots(ctx)
	if err != nil {
		return shard.RefuseAll(len(messages), err)
	}
	requests, results := make([]shard.Request, len(messages)), make([]shard.Result, len(messages))
	places := make(map[shard.ID][]int)
	for i := range messages {
		to := shard.ID(slots[messages[i].To])
		requests[i] = messages[i].Request
		places[to] = append(places[to], i)
	}
	var group sync.WaitGroup
	for to, places := range places {
		group.Go(func() {
			decideAt(requests, places, results, func(mine []shard.Request) []shard.Result {
				return r.Submit(ctx, to, mine)
			})
		})
	}
	group.Wait()
	return results
}

// Discharge carries out a shard's duties toward one other shard (shard.State.Duties), and the follow-up messages.
// Failed duties remain the shard's duties; all is true if none failed. The node of the shard's owner calls it
// periodically, for each other shard by itself: a shard that does not answer delays only the duties toward it. It
// returns when all are done, or ctx ends.
func (r *Router) Discharge(ctx context.Context, duties []shard.Duty) (all bool) {
	all = true
	var verdicts, questions []shard.Duty
	for _, duty := range duties {
		if duty.Request.Op == shard.FinishLeg {
			verdicts = append(verdicts, duty)
		} else {
			questions = append(questions, duty)
		}
	}
	for i, result := range r.dispatch(ctx, questions) {
		header := *questions[i].Request.Operation
		all = all && result.Err == nil
		//mutant:silent-leg-ends-itself
		if result.Err != nil || header.Leg == header.Home || result.Decision.Operation == nil {
			continue // without an answer the leg stays open: only home ends it
		}
		header.Verdict = *result.Decision.Operation
		header.Verdict.Legs = nil
		verdicts = append(verdicts, shard.Duty{To: header.Leg, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: questions[i].Request.Namespace, Entries: questions[i].Keys, Operation: &header}})
	}
	results := r.dispatch(ctx, verdicts)
	r.acknowledge(ctx, verdicts, results)
	return all && !slices.ContainsFunc(results, func(result shard.Result) bool { return result.Err != nil })
}
