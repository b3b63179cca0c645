package routing

import (
	"context"
	"sync"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// look asks every shard for its part and changes nothing. Each part is from an instant of its own.
func (o *operation) look(ctx context.Context) shard.Result {
	home, legs, err := o.lookAs(ctx, o.whole.Op, o.entriesAt)
	if err != nil {
		return shard.Result{Err: err}
	}
	return shard.Result{Decision: o.merged(home, legs)}
}

// lookAs looks at some of the entries on all shards, concurrently.
func (o *operation) lookAs(ctx context.Context, op shard.Op, entriesAt func(slot.ID) []shard.Entry) (home shard.Decision,
	legs []shard.Leg, err *shard.Error) {
	part := func(id slot.ID) shard.Result {
		return o.send(ctx, id, shard.Request{Op: op, Entries: entriesAt(id), Limit: o.whole.Limit})
	}
	var first shard.Result
	var group sync.WaitGroup
	group.Go(func() { first = part(o.home) })
	results := o.atEach(part)
	group.Wait()
	if first.Err != nil {
		return home, nil, o.errorInWhole(first.Err, o.home)
	}
	for i, id := range o.legs {
		if err := results[i].Err; err != nil {
			return home, nil, o.errorInWhole(err, id)
		}
		legs = append(legs, shard.Leg{Slot: id, Allowed: results[i].Decision.Allowed, Decision: results[i].Decision})
	}
	return first.Decision, legs, nil
}

// lookFirst looks at all shards and charges none. If a key is refused, or a key that has denied denies again, that is
// the answer; if the client gave an id, home records the denial first. It returns false if the operation should be
// tried.
func (o *operation) lookFirst(ctx context.Context, of keyHistory) (result shard.Result, done bool) {
	home, legs, err := o.lookAs(ctx, shard.Peek, func(id slot.ID) []shard.Entry {
		entries := o.entriesAt(id)
		for i := range entries {
			if o.whole.Op == shard.Partial {
				entries[i].Cost = 1
			}
		}
		return entries
	})
	if err != nil { // a transient error is ignored: the charge may not meet it
		return shard.Result{Err: err}, !isTransient(err)
	}
	d := o.merged(home, legs)
	if d.Allowed || of != denied {
		// After a refusal, a denial is no answer: a policy that counts its denials refuses the operation, and a look
		// does not show that.
		return shard.Result{}, false
	}
	o.router.recentDenials.learn(o, &d)
	if o.header.Drawn {
		d.Operation = &shard.Verdict{ID: o.header.ID, Home: o.home, Known: true, State: shard.OperationAborted}
		for i := range legs {
			d.Operation.Legs = append(d.Operation.Legs, bareLeg(legs[i]))
		}
		return shard.Result{Decision: d}, true
	}
	for i := range legs {
		legs[i].Allowed = false // it was not charged
	}
	result = o.conclude(ctx, legs)
	if said := &result.Decision; result.Err == nil && !said.Allowed && said.RetryAfter == 0 {
		said.RetryAfter = d.RetryAfter // there is room by now, but the id was denied
	}
	return result, true
}
