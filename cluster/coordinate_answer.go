package cluster

import (
	"context"
	"sync"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// answer is what the caller hears: home's decision, with what the other shards said of their part.
func (o *operation) answer(home *shard.Decision, legs []shard.Leg) shard.Result {
	verdict := home.Operation
	if verdict.State == shard.OperationAborted && len(verdict.Legs) == 0 {
		return shard.Result{Err: errGivenUp}
	}
	d := *home
	d.Operation = &shard.Verdict{ID: o.about.ID, Home: o.home, Known: true, State: verdict.State}
	parts := map[shard.ID][]shard.LimitStatus{o.home: home.Limits}
	for i := range legs {
		leg := &legs[i].Decision
		d.Operation.Legs = append(d.Operation.Legs, bareLeg(legs[i]))
		parts[legs[i].Shard] = leg.Limits
		d.ShadowDenied = d.ShadowDenied || leg.ShadowDenied
		if !d.Allowed && !legs[i].Allowed {
			d.RetryAfter = longerWait(d.RetryAfter, leg.RetryAfter)
		}
	}
	d.Limits = o.arrange(parts)
	return shard.Result{Decision: d}
}

// errGivenUp answers an id whose operation was aborted before home had decided it.
var errGivenUp = &shard.Error{Code: shard.Unavailable, Field: "idempotency_id", Message: "the operation was given up " +
	"before it was decided, since whoever coordinated it fell silent; nothing was counted; ask again with a new id"}

// longerWait is the wait that satisfies both; limit.Never outlasts all.
func longerWait(a, b limit.Span) limit.Span {
	if a == limit.Never || b == limit.Never {
		return limit.Never
	}
	return max(a, b)
}

// arrange puts the statuses of all shards into the order of the entries. Those of one shard are in the order of its
// entries already.
func (o *operation) arrange(parts map[shard.ID][]shard.LimitStatus) (all []shard.LimitStatus) {
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

// look asks every shard for its part and changes nothing. The parts are of different instants.
func (o *operation) look(ctx context.Context) shard.Result {
	results := make([]shard.Result, len(o.legs))
	part := func(id shard.ID) shard.Result {
		return o.send(ctx, id, shard.Request{Op: o.whole.Op, Entries: o.entriesAt(id), Limit: o.whole.Limit})
	}
	var home shard.Result
	var group sync.WaitGroup
	group.Go(func() { home = part(o.home) })
	o.atEach(func(i int, id shard.ID) { results[i] = part(id) })
	group.Wait()
	if home.Err != nil {
		return shard.Result{Err: o.ofWhole(home.Err, o.home)}
	}
	d := home.Decision
	parts := map[shard.ID][]shard.LimitStatus{o.home: d.Limits}
	for i, id := range o.legs {
		if err := results[i].Err; err != nil {
			return shard.Result{Err: o.ofWhole(err, id)}
		}
		leg := &results[i].Decision
		parts[id] = leg.Limits
		d.Allowed = d.Allowed && leg.Allowed
		d.ShadowDenied = d.ShadowDenied || leg.ShadowDenied
		d.RetryAfter = longerWait(d.RetryAfter, leg.RetryAfter)
	}
	d.Limits = o.arrange(parts)
	return shard.Result{Decision: d}
}
