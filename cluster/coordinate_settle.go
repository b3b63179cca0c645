package cluster

import (
	"context"
	"time"

	"github.com/stint-io/stint/shard"
)

// settleAnswerWithin is how long the answer to a settlement waits for the statuses of other shards than home.
const settleAnswerWithin = time.Second

// settleAcross settles a hold or a decision of an operation on several shards: home does, once, and the others when they
// hear of it, which the answer waits for a little.
func (r *Router) settleAcross(ctx context.Context, request *shard.Request, shards uint32) shard.Result {
	target := settlesOperation(request)
	o := &operation{router: r, whole: request, at: shardsOf(request, shards), home: target.Home}
	if uint32(o.home) >= shards {
		return shard.Result{Err: noSuchShard(o.home, shards)}
	}
	_, o.legs = homeAndLegs(append([]shard.ID{o.home}, o.at...))
	o.about = shard.Operation{ID: target.Operation, Home: o.home, TTL: chargeTTL}
	for _, id := range o.legs {
		o.about.Legs = append(o.about.Legs, o.named(id, target))
	}
	result := o.send(ctx, o.home, shard.Request{Op: shard.Settle, Entries: request.Entries,
		Settlement: request.Settlement, Operation: &o.about})
	if result.Err != nil {
		return result
	}
	d := &result.Decision
	verdict := d.Operation
	parts := map[shard.ID][]shard.LimitStatus{o.home: d.Limits}
	d.Operation = &shard.Verdict{ID: verdict.ID, Home: o.home, Known: true, State: verdict.State}
	if verdict.State == shard.OperationSettled {
		o.settleLegs(ctx, verdict, d, parts)
	} else {
		o.lookAtLegs(ctx, parts)
	}
	d.Limits = o.arrange(parts)
	return result
}

// named is a leg with the keys that live there.
func (o *operation) named(id shard.ID, target *shard.Target) shard.Leg {
	leg := shard.Leg{Shard: id, Allowed: true, Decision: shard.Decision{Allowed: true, DecidedAt: target.DecidedAt}}
	for _, entry := range o.entriesAt(id) {
		leg.Decision.Limits = append(leg.Decision.Limits, shard.LimitStatus{Policy: entry.Policy, Key: entry.Key})
	}
	return leg
}

// settleLegs has the legs do what home has settled, and adds their statuses as far as they come in time. What takes
// longer goes on behind.
func (o *operation) settleLegs(ctx context.Context, verdict *shard.Verdict, d *shard.Decision, parts map[shard.ID][]shard.LimitStatus) {
	messages := o.settling(verdict)
	answered := make(chan []shard.Result, 1)
	if !o.router.behind.start(func(ctx context.Context) {
		results := o.router.dispatch(ctx, messages)
		answered <- results
		o.router.acknowledge(ctx, messages, results)
	}) {
		return
	}
	timer := time.NewTimer(settleAnswerWithin)
	defer timer.Stop()
	select {
	case results := <-answered:
		for i := range results {
			parts[messages[i].To] = results[i].Decision.Limits
			if results[i].Err == nil {
				d.Operation.Legs = append(d.Operation.Legs, bareLeg(shard.Leg{Shard: messages[i].To, Allowed: true,
					Decision: results[i].Decision}))
			}
		}
	case <-timer.C:
	case <-ctx.Done():
	}
}

// settling lists the messages by which the legs hear how they are settled.
func (o *operation) settling(verdict *shard.Verdict) (messages []shard.Duty) {
	for _, leg := range verdict.Legs {
		about := o.about
		about.Leg, about.Legs = leg.Shard, []shard.Leg{bareLeg(leg)}
		about.Verdict = *verdict
		about.Verdict.Legs = nil
		if s := o.whole.Settlement; verdict.Settled != nil {
			about.Verdict.Settled = new(*verdict.Settled)
			for i, at := range o.at {
				if at == leg.Shard && s.Actual != nil {
					about.Verdict.Settled.Actual = append(about.Verdict.Settled.Actual, s.Actual[i])
				}
			}
		}
		messages = append(messages, shard.Duty{To: leg.Shard, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: o.whole.Namespace, Operation: &about}})
	}
	return messages
}

// lookAtLegs adds the statuses of the legs as they are, as far as they come.
func (o *operation) lookAtLegs(ctx context.Context, parts map[shard.ID][]shard.LimitStatus) {
	if len(o.legs) == 0 {
		return
	}
	results := make([]shard.Result, len(o.legs))
	o.atEach(func(i int, id shard.ID) {
		ctx, cancel := context.WithTimeout(ctx, settleAnswerWithin)
		defer cancel()
		results[i] = o.send(ctx, id, shard.Request{Op: shard.Get, Entries: o.entriesAt(id)})
	})
	for i, id := range o.legs {
		parts[id] = results[i].Decision.Limits
	}
}
