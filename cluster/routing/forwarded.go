package routing

import (
	"context"
	"fmt"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Forwarded is this node's hop.Handler: it decides requests that another node believed to belong here. If this node
// knows that the owner is elsewhere, the requests make one more hop; otherwise they are NotOwner. Forwarded never
// retries: the node that received them from the client retries, and has the deadline. A request that does not belong to
// the shard fails alone, because the others may be from other callers.
func (r *Router) Forwarded(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	slots, shards := r.config.Slots()
	switch {
	case id != shard.System && shards == 0:
		return shard.RefuseAll(len(requests), errNoTable)
	case id != shard.System && uint32(id) >= shards:
		return shard.RefuseAll(len(requests), noSuchShard(id, shards))
	}
	for i := range requests {
		if misplaced(id, &requests[i], slots) != nil {
			return r.passPlaced(ctx, hops, id, requests, slots)
		}
	}
	return r.passOn(ctx, hops, id, requests)
}

// passPlaced refuses the requests that do not belong to the shard and passes on the others.
func (r *Router) passPlaced(ctx context.Context, hops int, id shard.ID, requests []shard.Request, slots *slot.Map) []shard.Result {
	results := make([]shard.Result, len(requests))
	var places []int // of the others
	for i := range requests {
		if results[i].Err = misplaced(id, &requests[i], slots); results[i].Err == nil {
			places = append(places, i)
		}
	}
	if len(places) > 0 {
		atPlaces(requests, places, results, func(mine []shard.Request) []shard.Result { return r.passOn(ctx, hops, id, mine) })
	}
	return results
}

// passOn decides requests here or makes one more hop, except for denials that may be repeated.
func (r *Router) passOn(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	return r.denials.wrap(requests, func(rest []shard.Request) []shard.Result { return r.forward(ctx, hops, id, rest) })
}

func (r *Router) forward(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	known := r.evidence(id)
	if known.open {
		return known.owner.Submit(ctx, requests)
	}
	node := known.leader
	if node == "" {
		node = known.hint.Node
	}
	if hops >= hop.MaxHops || node == "" || node == r.config.Node {
		return shard.RefuseAll(len(requests), &shard.Error{Code: shard.NotOwner, RetryAfter: 100e3, Message: fmt.Sprintf(
			"node %s does not own shard %s, after %d hops; nothing was counted", r.config.Node, id, hops)})
	}
	results := r.config.Forward.Submit(ctx, node, hops, id, requests)
	if err := results[0].Err; err != nil && err.Code == shard.NotOwner && known.hint.Node == node {
		r.config.Hints.Drop(known.hint)
	}
	return results
}

// misplaced returns an error for a request that does not belong to the shard: the node that sent it maps keys to shards
// differently. (X1.) A message of an operation on several shards belongs to its home, or to the leg that it is about. Its
// entries must live in that slot too, except for those of a settlement and of a question about an id, which home receives as a
// whole.
func misplaced(id shard.ID, request *shard.Request, slots *slot.Map) *shard.Error {
	if request.Op.OfOperation() != (request.Operation != nil) && request.Op != shard.Settle {
		return shard.Invalidf("operation", "is missing, or not what the request is about")
	}
	if id != shard.System {
		if err := elsewhere(id, request, slots); err != nil {
			return err
		}
	} else if len(request.Entries) > 0 || request.Operation != nil {
		return shard.Invalidf("entries", "do not belong to the system shard")
	}
	if inSystem := request.Op == shard.Fetch || request.Op == shard.Swap; request.Op != shard.OpenSession &&
		inSystem != (id == shard.System) {
		return shard.Invalidf("", "the operation does not belong to shard %s", id)
	}
	return nil
}

// elsewhere returns an error for a request to a data shard that does not hold the request's slots.
func elsewhere(id shard.ID, request *shard.Request, slots *slot.Map) *shard.Error {
	o := request.Operation
	var of slot.ID // the slot of the message
	if o != nil {
		leg := request.Op == shard.Charge || request.Op == shard.FinishLeg
		if of = o.Home; leg {
			of = o.Leg
		}
		if shard.ID(slots[of]) != id || leg && o.Leg == o.Home {
			return shard.Invalidf("operation", "does not belong to shard %s", id)
		}
		if request.Op == shard.Settle || request.Op == shard.AskHome {
			return nil
		}
	}
	for j := range request.Entries {
		at := slot.Of(request.Namespace, request.Entries[j].Key)
		if shard.ID(slots[at]) != id || o != nil && at != of {
			return shard.Invalidf(fmt.Sprintf("entries[%d].key", j), "does not belong to shard %s", id)
		}
	}
	return nil
}
