package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// Owner decides requests of one shard: the actor in this process.
type Owner interface {
	// Submit returns one result for each request, in their order.
	Submit(ctx context.Context, requests []shard.Request) []shard.Result
}

// Forwarder has requests of one shard decided by another node. A Hop is one.
type Forwarder interface {
	Submit(ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request) []shard.Result
}

// RouterConfig is what a Router knows of the rest. All functions are called on the way of every request, by any number
// of goroutines: they must be quick and never block.
type RouterConfig struct {
	Node string // this one
	// Shards is the number of data shards; 0 while the table is unknown: requests wait for it.
	Shards func() uint32
	// Places are the nodes of the group's voters as the table says, this one perhaps among them. The list is not
	// changed afterwards.
	Places func(id shard.ID) []string
	// Local is this node's actor of the shard, nil if it has none, and whether it has an epoch open.
	Local func(id shard.ID) (owner Owner, open bool)
	// Leader is the node of the Raft leader as our own replica knows it; "" unknown, or no replica.
	Leader func(id shard.ID) string
	// Forward reaches other nodes. It may be nil if Leader, Hints and Places never name another.
	Forward Forwarder
	Hints   *Hints
	// Sessions says whether requests to this shard travel in sessions: its group has more than one replica.
	Sessions func(id shard.ID) bool
}

// Router finds the owner of every request. All its methods may be called by any number of goroutines; it has none of its
// own.
type Router struct {
	config RouterConfig
	table  bell // the number of shards may be known now
	system *road

	mu    sync.Mutex              // of those who make roads
	roads atomic.Pointer[[]*road] // of the data shards
}

// NewRouter makes a Router. It listens to config.Hints from then on.
func NewRouter(config RouterConfig) *Router {
	r := &Router{config: config, system: &road{id: shard.System}}
	r.roads.Store(new([]*road))
	config.Hints.OnNews(func(id shard.ID) {
		if road := r.roadTo(id); road != nil {
			r.changed(road)
		}
	})
	return r
}

// roadTo returns the way to a shard; nil if nothing was ever sent there.
func (r *Router) roadTo(id shard.ID) *road {
	roads := *r.roads.Load()
	switch {
	case id == shard.System:
		return r.system
	case int(id) < len(roads):
		return roads[id]
	}
	return nil
}

// build makes the ways to all data shards.
func (r *Router) build(shards uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	roads := slices.Clone(*r.roads.Load())
	for id := len(roads); id < int(shards); id++ {
		roads = append(roads, &road{id: shard.ID(id)})
	}
	r.roads.Store(&roads)
}

// Wake says that something changed that requests may wait for: leadership, an epoch, the table. It never blocks.
func (r *Router) Wake() {
	r.table.ring()
	r.changed(r.system)
	for _, road := range *r.roads.Load() {
		r.changed(road)
	}
}

func (r *Router) changed(road *road) {
	road.changed(r.evidence(road.id), r.config.Places(road.id), r.config.Node)
}

// Submit has requests of one shard decided by its owner, wherever that is, and returns one result for each, in their
// order. Failures that certainly changed nothing and pass are retried until ctx ends; so are unknown outcomes of
// requests that have an id or travel in a session. The caller must not change the requests, nor their entries, until
// Submit returns, and their Entries and Body not even then if the outcome of one is unknown.
func (r *Router) Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
	if len(requests) == 0 {
		return nil
	}
	if id == shard.System {
		return r.deliver(ctx, r.system, requests)
	}
	shards, err := r.shards(ctx)
	if err == nil && uint32(id) >= shards {
		err = noSuchShard(id, shards)
	}
	if err != nil {
		return refuse(len(requests), err)
	}
	return r.deliver(ctx, r.roadTo(id), requests)
}

func noSuchShard(id shard.ID, shards uint32) *shard.Error {
	return shard.Invalidf("", "there is no shard %s: the cluster has %d", id, shards)
}

// shards waits until the number of shards is known, and the ways to them are built.
func (r *Router) shards(ctx context.Context) (uint32, *shard.Error) {
	for {
		count := r.table.count()
		if shards := r.config.Shards(); shards > 0 {
			if int(shards) > len(*r.roads.Load()) {
				r.build(shards)
			}
			return shards, nil
		}
		select {
		case <-r.table.after(count):
		case <-time.After(pauseMost):
		case <-ctx.Done():
			return 0, errNoTable
		}
	}
}

var errNoTable = &shard.Error{Code: shard.Unavailable, RetryAfter: 500e3,
	Message: "this node does not know the cluster's table yet; nothing was counted, ask again"}

// Decide is Submit for requests of any data shards: each goes to the shard of its keys. Requests of one shard travel
// together; requests of different shards are decided at the same time, independently of each other.
func (r *Router) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	shards, err := r.shards(ctx)
	if err != nil {
		return refuse(len(requests), err)
	}
	if len(requests) == 1 {
		id, err := shardOf(&requests[0], shards)
		if err != nil {
			return []shard.Result{{Err: err}}
		}
		return r.deliver(ctx, r.roadTo(id), requests)
	}
	results := make([]shard.Result, len(requests))
	var group sync.WaitGroup
	for id, places := range split(requests, shards, results) {
		switch {
		case len(places) == len(requests): // all live together
			return r.deliver(ctx, r.roadTo(shard.ID(id)), requests)
		case len(places) > 0:
			group.Go(func() { r.decideTogether(ctx, shard.ID(id), requests, places, results) })
		}
	}
	group.Wait()
	return results
}

// split sorts the places of requests by shard; those that no single shard can decide get their error at once.
func split(requests []shard.Request, shards uint32, results []shard.Result) [][]int {
	places := make([][]int, shards)
	for i := range requests {
		if id, err := shardOf(&requests[i], shards); err != nil {
			results[i].Err = err
		} else {
			places[id] = append(places[id], i)
		}
	}
	return places
}

// decideTogether delivers the requests at the given places and writes the answers to the same places.
func (r *Router) decideTogether(ctx context.Context, id shard.ID, requests []shard.Request, places []int, results []shard.Result) {
	mine := make([]shard.Request, len(places))
	for i, place := range places {
		mine[i] = requests[place]
	}
	for i, result := range r.deliver(ctx, r.roadTo(id), mine) {
		results[places[i]] = result
	}
}

// shardOf places a request. Its entries must live on one shard: all or nothing across shards is not built yet.
func shardOf(request *shard.Request, shards uint32) (shard.ID, *shard.Error) {
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
