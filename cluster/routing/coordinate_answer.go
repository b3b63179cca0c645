package routing

import (
	"context"
	"slices"
	"sync"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// answer builds the caller's result from home's decision and the other shards' parts.
func (o *operation) answer(home *shard.Decision, legs []shard.Leg) shard.Result {
	verdict := home.Operation
	if verdict.State == shard.OperationAborted && len(verdict.Legs) == 0 {
		return shard.Result{Err: shard.ErrGivenUp}
	}
	d := *home
	d.Operation = &shard.Verdict{ID: o.about.ID, Home: o.home, Known: true, State: verdict.State}
	parts := map[slot.ID][]shard.LimitStatus{o.home: home.Limits}
	for i := range legs {
		d.Operation.Legs = append(d.Operation.Legs, bareLeg(legs[i]))
		parts[legs[i].Slot] = legs[i].Decision.Limits
		d.Join(&legs[i])
	}
	d.ShadowDenied = d.ShadowDenied && d.Allowed
	d.Limits = o.arrange(parts)
	return shard.Result{Decision: d}
}

// arrange puts the statuses of all shards into the order of the entries. Those of one shard are already in the order of
// its entries.
func (o *operation) arrange(parts map[slot.ID][]shard.LimitStatus) (all []shard.LimitStatus) {
	for i := range o.whole.Entries {
		entry, rest := &o.whole.Entries[i], parts[o.at[i]]
		n := 0
		for n < len(rest) && rest[n].Policy == entry.Policy && rest[n].Key == entry.Key {
			n++
		}
		all = append(all, rest[:n]...)
		parts[o.at[i]] = rest[n:]
	}
	return all
}

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
		return home, nil, o.ofWhole(first.Err, o.home)
	}
	for i, id := range o.legs {
		if err := results[i].Err; err != nil {
			return home, nil, o.ofWhole(err, id)
		}
		legs = append(legs, shard.Leg{Slot: id, Allowed: results[i].Decision.Allowed, Decision: results[i].Decision})
	}
	return first.Decision, legs, nil
}

// merged combines the decisions of all shards into one.
func (o *operation) merged(home shard.Decision, legs []shard.Leg) shard.Decision {
	d := home
	parts := map[slot.ID][]shard.LimitStatus{o.home: d.Limits}
	for i := range legs {
		leg := &legs[i].Decision
		parts[legs[i].Slot] = leg.Limits
		d.Allowed = d.Allowed && leg.Allowed
		d.ShadowDenied = d.ShadowDenied || leg.ShadowDenied
		d.RetryAfter = limit.Longer(d.RetryAfter, leg.RetryAfter)
		if fired := leg.Answer().Fired; fired != nil {
			//mutant:fired-lost-between-shards
			d.System = &shard.SystemAnswer{Fired: append(slices.Clone(d.Answer().Fired), fired...)}
		}
	}
	d.ShadowDenied = d.ShadowDenied && d.Allowed
	d.Limits = o.arrange(parts)
	return d
}
