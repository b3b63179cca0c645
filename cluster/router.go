package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/stint-io/stint/shard"
)

// Owner decides requests of one shard: the actor in this process.
type Owner interface {
	// Submit returns one result for each request, in their order.
	Submit(ctx context.Context, requests []shard.Request) []shard.Result
}

// Router finds the owner of every request.
type Router struct {
	owners []Owner // by shard
}

// NewRouter routes among owners, one for each shard in the order of their ids. There must be at least one.
func NewRouter(owners []Owner) *Router { return &Router{owners: owners} }

// Decide has every request decided by its owner and returns the results in the requests' order. Requests of one shard
// travel together; requests of different shards are decided at the same time, independently of each other.
func (r *Router) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	if len(requests) == 1 {
		id, err := r.shardOf(&requests[0])
		if err != nil {
			return []shard.Result{{Err: err}}
		}
		return r.owners[id].Submit(ctx, requests)
	}
	results := make([]shard.Result, len(requests))
	var group sync.WaitGroup
	for id, places := range r.split(requests, results) {
		if len(places) > 0 {
			group.Go(func() { r.decideTogether(ctx, r.owners[id], requests, places, results) })
		}
	}
	group.Wait()
	return results
}

// split sorts the places of requests by shard; those that no single shard can decide get their error at once.
func (r *Router) split(requests []shard.Request, results []shard.Result) [][]int {
	places := make([][]int, len(r.owners))
	for i := range requests {
		if id, err := r.shardOf(&requests[i]); err != nil {
			results[i].Err = err
		} else {
			places[id] = append(places[id], i)
		}
	}
	return places
}

// decideTogether submits the requests at the given places to one owner and writes its answers to the same places.
func (r *Router) decideTogether(ctx context.Context, owner Owner, requests []shard.Request, places []int, results []shard.Result) {
	mine := make([]shard.Request, len(places))
	for i, place := range places {
		mine[i] = requests[place]
	}
	for i, result := range owner.Submit(ctx, mine) {
		results[places[i]] = result
	}
}

// shardOf places a request. Its entries must live on one shard: all or nothing across shards is not built yet.
func (r *Router) shardOf(request *shard.Request) (shard.ID, *shard.Error) {
	shards := uint32(len(r.owners))
	first := shard.Of(request.Namespace, request.Entries[0].Key, shards)
	for i := range request.Entries[1:] {
		if shard.Of(request.Namespace, request.Entries[i+1].Key, shards) != first {
			return 0, &shard.Error{Code: shard.NotBuilt, Field: fmt.Sprintf("entries[%d].key", i+1), Message: fmt.Sprintf(
				"%q lives on another shard than %q: checks across shards are not built yet; "+
					"a common {tag} in the keys places them together", request.Entries[i+1].Key, request.Entries[0].Key)}
		}
	}
	return first, nil
}
