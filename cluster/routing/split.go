package routing

import (
	"context"
	"sync"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// together reports whether all requests live on one shard, and returns that shard.
func (r *Router) together(requests []shard.Request, slots *slot.Map, shards uint32) (id shard.ID, one bool) {
	for i := range requests {
		at, single := r.shardOf(&requests[i], slots, shards)
		if !single || i > 0 && at != id {
			return 0, false
		}
		id = at
	}
	return id, len(requests) > 0
}

// split sorts the indexes of requests by shard. The indexes of requests that no single shard can decide are returned in
// across.
func (r *Router) split(requests []shard.Request, slots *slot.Map, shards uint32) (places [][]int, across []int) {
	places = make([][]int, shards)
	fair := len(requests)/int(shards) + len(requests)/8 + 1 // with slack: keys are spread almost evenly
	for i := range requests {
		if id, one := r.shardOf(&requests[i], slots, shards); one {
			if places[id] == nil {
				places[id] = make([]int, 0, fair)
			}
			places[id] = append(places[id], i)
		} else {
			across = append(across, i)
		}
	}
	return places, across
}

// decideAllAcross carries out the requests at the given indexes, at most maxAcross of them at the same time.
func (r *Router) decideAllAcross(
	ctx context.Context, requests []shard.Request, across []int, shards uint32, results []shard.Result,
) {
	var group sync.WaitGroup
	turns := make(chan struct{}, maxAcross)
	for _, i := range across {
		turns <- struct{}{}
		group.Go(func() {
			results[i] = r.decideAcross(ctx, &requests[i], shards)
			<-turns
		})
	}
	group.Wait()
}

// decideAt decides the requests at the given indexes together and writes the answers to the same indexes.
func decideAt(
	requests []shard.Request, places []int, results []shard.Result, decide func([]shard.Request) []shard.Result,
) {
	mine := make([]shard.Request, len(places))
	for i, place := range places {
		mine[i] = requests[place]
	}
	for i, result := range decide(mine) {
		results[places[i]] = result
	}
}

// decideRest decides those requests that are not done, and adds their answers to the results of the others. Without any
// results it decides all.
func decideRest(
	requests []shard.Request, results []shard.Result, done func(*shard.Result) bool,
	decide func([]shard.Request) []shard.Result,
) []shard.Result {
	if results == nil {
		return decide(requests)
	}
	var places []int // made when the first is found: mostly all are done
	for i := range results {
		if !done(&results[i]) {
			if places == nil {
				places = make([]int, 0, len(results)-i)
			}
			places = append(places, i)
		}
	}
	if len(places) > 0 {
		decideAt(requests, places, results, decide)
	}
	return results
}

// shardOf returns the shard of a request; of one that another node takes as a whole, that of its first key.
func (r *Router) shardOf(request *shard.Request, slots *slot.Map, shards uint32) (id shard.ID, one bool) {
	if r.config.Whole && len(request.Entries) > 0 {
		return shard.Of(slots, request.Namespace, request.Entries[0].Key), true
	}
	return shardOf(request, slots, shards)
}

// shardOf returns the shard of a request. It returns false if its entries live on several shards, or if it names a
// shard that does not exist.
func shardOf(request *shard.Request, slots *slot.Map, shards uint32) (id shard.ID, one bool) {
	if target := settlesOperation(request); target != nil {
		return 0, false
	}
	if request.Op.AboutShard() {
		return request.Shard, uint32(request.Shard) < shards
	}
	id = shard.Of(slots, request.Namespace, request.Entries[0].Key)
	for i := range request.Entries[1:] {
		if shard.Of(slots, request.Namespace, request.Entries[i+1].Key) != id {
			return 0, false
		}
	}
	return id, true
}

// shardOfMessage is shardOf for messages of operations, too.
func shardOfMessage(request *shard.Request, slots *slot.Map, shards uint32) (id shard.ID, one bool) {
	if request.Operation != nil {
		return shard.ID(slots[request.Operation.Addressee(request.Op)]), true
	}
	return shardOf(request, slots, shards)
}

// slotsOf returns the slot of each entry of a request.
func slotsOf(request *shard.Request) []slot.ID {
	at := make([]slot.ID, len(request.Entries))
	for i := range at {
		at[i] = slot.Of(request.Namespace, request.Entries[i].Key)
	}
	return at
}

// settlesOperation returns the target of a settlement if that is an operation on several shards, else nil.
func settlesOperation(request *shard.Request) *shard.Target {
	if s := request.Settlement; s != nil && s.Target.Operation != "" {
		return &s.Target
	}
	return nil
}
