package cluster

import (
	"context"
	"fmt"

	"github.com/stint-io/stint/shard"
)

// Forwarded is this node's HopHandler: it has requests decided that another node believed to belong here. If the owner
// is elsewhere by what this node knows, they make one more hop; else they are NotOwner. It never retries: the node
// where they came in does, and has the deadline.
func (r *Router) Forwarded(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	if err := r.misplaced(id, requests); err != nil {
		return refuse(len(requests), err)
	}
	known := r.evidence(id)
	if known.open {
		return known.owner.Submit(ctx, requests)
	}
	node := known.leader
	if node == "" {
		node = known.hint.Node
	}
	if hops >= MaxHops || node == "" || node == r.config.Node {
		return refuse(len(requests), &shard.Error{Code: shard.NotOwner, RetryAfter: 100e3, Message: fmt.Sprintf(
			"node %s does not own shard %s, after %d hops; nothing was counted", r.config.Node, id, hops)})
	}
	results := r.config.Forward.Submit(ctx, node, hops, id, requests)
	if err := results[0].Err; err != nil && err.Code == shard.NotOwner && known.hint.Node == node {
		r.config.Hints.Drop(known.hint)
	}
	return results
}

// misplaced refuses requests that do not belong to the shard: whoever sent them counts keys in another way. (SEMANTICS
// X1.) Those of an operation on several shards belong to its home, or to the leg that they are about; the entries that
// they bring along live there, but for those of a settlement, which home is told as a whole.
func (r *Router) misplaced(id shard.ID, requests []shard.Request) *shard.Error {
	shards := r.config.Shards()
	switch {
	case id != shard.System && shards == 0:
		return errNoTable
	case id != shard.System && uint32(id) >= shards:
		return noSuchShard(id, shards)
	}
	for i := range requests {
		request := &requests[i]
		if request.Op.OfOperation() != (request.Operation != nil) && request.Op != shard.Settle {
			return shard.Invalidf("operation", "is missing, or not what the request is about")
		}
		if o := request.Operation; o != nil && !belongs(request.Op, o, id) {
			return shard.Invalidf("operation", "does not belong to shard %s", id)
		}
		for j := range request.Entries {
			if request.Op == shard.Settle && request.Operation != nil {
				break
			}
			if id == shard.System || shard.Of(request.Namespace, request.Entries[j].Key, shards) != id {
				return shard.Invalidf(fmt.Sprintf("entries[%d].key", j), "does not belong to shard %s", id)
			}
		}
		if inSystem := request.Op == shard.Fetch || request.Op == shard.Swap; request.Op != shard.OpenSession &&
			inSystem != (id == shard.System) {
			return shard.Invalidf("", "the operation does not belong to shard %s", id)
		}
	}
	return nil
}

// belongs reports whether a message of an operation is one to this shard.
func belongs(op shard.Op, o *shard.Operation, id shard.ID) bool {
	switch op {
	case shard.Charge:
		return o.Home != id
	case shard.FinishLeg:
		return o.Home != id && o.Leg == id
	default:
		return o.Home == id
	}
}
