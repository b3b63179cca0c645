package cluster

import (
	"math/bits"
	"time"

	"github.com/stint-io/stint/shard"
)

// bundle is calls of one frame that are handled as one: their shard's owner would put them into one batch in any case. They
// ask for the same operation, so that none goes to another lane of the owner's queue for the company that it keeps, and
// have about as much time: it ends with the longest deadline of them, which is less than twice that of any other. A caller
// whose deadline is shorter gives up by himself.
type bundle struct {
	bundleKey
	budget   time.Duration // 0: without a deadline
	calls    []*sentCall
	requests int
}

// bundleKey is what the calls of a bundle have in common.
type bundleKey struct {
	shard shard.ID
	hops  int
	op    shard.Op // 0: of several kinds, such a call goes alone
	time  int      // the length of the budget in bits; 0: none
}

// bundles sorts the calls of a frame.
func bundles(calls []sentCall) (all []*bundle) {
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

// opOf is the operation that all requests are, or 0.
func opOf(requests []shard.Request) shard.Op {
	for i := range requests {
		if requests[i].Op != requests[0].Op {
			return 0
		}
	}
	return requests[0].Op
}

// together is the requests of all calls, one after another.
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
