package hop

import (
	"math/bits"
	"time"

	"github.com/stint-io/stint/shard"
)

// bundle is a set of calls of one frame that are handled together: their shard's owner would put them into one batch
// anyway. All calls ask for the same operation, so that none is sent to another class of the owner's queue because of
// the others. Their budgets are similar: the bundle gets the longest one, which is less than twice any other. A caller
// with a shorter deadline gives up by itself.
type bundle struct {
	bundleKey
	budget   time.Duration // 0 means no deadline
	calls    []*callRecord
	requests int
}

// bundleKey is what the calls of a bundle have in common.
type bundleKey struct {
	shard shard.ID
	hops  int
	op    shard.Op // 0 if mixed or none; such a call is handled alone
	time  int      // bit length of the budget; 0 for no deadline
}

// bundles groups the calls of a frame.
func bundles(calls []callRecord) (all []*bundle) {
	open := make(map[bundleKey]*bundle, 4)
	for i := range calls {
		c := &calls[i]
		key := bundleKey{c.shard, c.hops, opOf(c.requests), bits.Len64(uint64(c.budget))}
		b := open[key]
		if b == nil || key.op == 0 || b.requests+len(c.requests) > maxCallRequests {
			b = &bundle{bundleKey: key}
			open[key] = b
			all = append(all, b)
		}
		b.calls = append(b.calls, c)
		b.budget = max(b.budget, c.budget)
		b.requests += len(c.requests)
	}
	return all
}

// opOf returns the operation that all requests share. It returns 0 if they differ, or if there are none, as when none
// could be read.
func opOf(requests []shard.Request) shard.Op {
	if len(requests) == 0 {
		return 0
	}
	for i := range requests {
		if requests[i].Op != requests[0].Op {
			return 0
		}
	}
	return requests[0].Op
}

// together returns the requests of all calls, concatenated.
func (b *bundle) together() []shard.Request {
	if len(b.calls) == 1 {
		return b.calls[0].requests
	}
	requests := make([]shard.Request, 0, b.requests)
	for _, c := range b.calls {
		requests = append(requests, c.requests...)
	}
	return requests
}
