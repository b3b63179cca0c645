package routing

import (
	"slices"

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
	d.Operation = &shard.Verdict{ID: o.header.ID, Home: o.home, Known: true, State: verdict.State}
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
