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
	_, shards := r.config.Slots()
	if id != shard.System && uint32(id) >= shards { //mutant:newer-shard-is-no-shard
		return shard.RefuseAll(len(requests), errNoTable) // or an older one
	}
	for i := range requests {
		if misplaced(id, &requests[i]) != nil {
			return r.passPlaced(ctx, hops, id, requests)
		}
	}
	return r.passOn(ctx, hops, id, requests)
}

// passPlaced refuses the requests that do not belong to the shard and passes on the others.
func (r *Router) passPlaced(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i := range requests {
		results[i].Err = misplaced(id, &requests[i])
	}
	return decideRest(requests, results, func(one *shard.Result) bool { return one.Err != nil },
		func(rest []shard.Request) []shard.Result { return r.passOn(ctx, hops, id, rest) })
}

// passOn decides requests here or makes one more hop, except for denials that may be repeated.
func (r *Router) passOn(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	return r.leases.pass(requests, func(all []shard.Request) []shard.Result {
		return r.denials.wrap(all, func(rest []shard.Request) []shard.Result { return r.forward(ctx, hops, id, rest) })
	})
}

// forward has the owner decide: the local actor if it is open, or else the node that the evidence names.
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
		return shard.RefuseAll(len(requests), &shard.Error{Code: shard.NotOwner, RetryAfter: 100e3,
			Message: fmt.Sprintf(
				"node %s does not own shard %s, after %d hops; nothing was counted", r.config.Node, id, hops)})
	}
	results := r.config.Forward.Submit(ctx, node, hops, id, requests)
	if err := results[0].Err; err != nil && err.Code == shard.NotOwner && known.hint.Node == node {
		r.config.Hints.Drop(known.hint)
	}
	return results
}

// misplaced returns an error for a request that no node sends to the shard. Whether the shard owns the request's slots
// is for the shard itself to say (X1). The entries of a message of an operation live in the slot that it is for, except
// for those of a settlement and of a question about an id, which home receives as a whole.
func misplaced(id shard.ID, request *shard.Request) *shard.Error {
	o := request.Operation
	switch inSystem := request.Op == shard.Fetch || request.Op == shard.Swap; {
	case request.Op.OfOperation() != (o != nil) && request.Op != shard.Settle:
		return shard.Invalidf("operation", "is missing, or not what the request is about")
	case id == shard.System && (len(request.Entries) > 0 || o != nil):
		return shard.Invalidf("entries", "do not belong to the system shard")
	case request.Op != shard.OpenSession && inSystem != (id == shard.System):
		return shard.Invalidf("", "the operation does not belong to shard %s", id)
	case o == nil || request.Op == shard.Settle || request.Op == shard.AskHome:
		return nil
	case o.Leg == o.Home && (request.Op == shard.Charge || request.Op == shard.FinishLeg):
		return shard.Invalidf("operation", "has its home as a leg")
	}
	for j := range request.Entries {
		if at := slot.Of(request.Namespace, request.Entries[j].Key); at != o.Addressee(request.Op) {
			return shard.Invalidf(fmt.Sprintf("entries[%d].key", j), "is of slot %d, and the message for another", at)
		}
	}
	return nil
}
