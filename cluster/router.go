package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/policy"
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
	// Policies are those in force as far as this node knows; nil while none are known. They say which denials may be
	// repeated here. nil: none is.
	Policies func() *policy.Revision
}

// Router finds the owner of every request, and coordinates those whose entries live on several shards. All its methods
// may be called by any number of goroutines. It has none of its own but for what an operation on several shards leaves to
// be done when its caller has the answer: Close waits for that.
type Router struct {
	config RouterConfig
	behind behind
	table  bell // the number of shards may be known now
	system *road
	// denials stands in all doors: Submit, Decide and Forwarded.
	denials *denials

	mu    sync.Mutex              // of those who make roads
	roads atomic.Pointer[[]*road] // of the data shards
}

// NewRouter makes a Router. It listens to config.Hints from then on.
func NewRouter(config RouterConfig) *Router {
	r := &Router{config: config, system: &road{id: shard.System}, denials: newDenials(config.Policies)}
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
	return r.denials.around(requests, func(rest []shard.Request) []shard.Result {
		return r.deliver(ctx, r.roadTo(id), rest)
	})
}

// Place is the shard on which a key lives. It waits until the number of shards is known, or ctx ends.
func (r *Router) Place(ctx context.Context, namespace, key string) (shard.ID, *shard.Error) {
	shards, err := r.shards(ctx)
	if err != nil {
		return 0, err
	}
	return shard.Of(namespace, key, shards), nil
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
// together; requests of different shards are decided at the same time, independently of each other. One whose entries
// live on several shards is decided all or nothing too, in more commits (operation).
func (r *Router) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return r.denials.around(requests, func(rest []shard.Request) []shard.Result { return r.decide(ctx, rest) })
}

func (r *Router) decide(ctx context.Context, requests []shard.Request) []shard.Result {
	shards, err := r.shards(ctx)
	if err != nil {
		return refuse(len(requests), err)
	}
	if id, one := together(requests, shards); one {
		return r.deliver(ctx, r.roadTo(id), requests)
	}
	if len(requests) == 1 {
		return []shard.Result{r.decideAcross(ctx, &requests[0], shards)}
	}
	results := make([]shard.Result, len(requests))
	var group sync.WaitGroup
	places, across := split(requests, shards)
	for id, places := range places {
		if len(places) > 0 {
			group.Go(func() {
				atPlaces(requests, places, results, func(mine []shard.Request) []shard.Result {
					return r.deliver(ctx, r.roadTo(shard.ID(id)), mine)
				})
			})
		}
	}
	r.decideAllAcross(ctx, requests, across, shards, results)
	group.Wait()
	return results
}

// Repeat answers a check with a denial that this node may repeat without asking again, for whoever would else gather it
// with others and wait for them. False: it is to be decided. It never blocks.
func (r *Router) Repeat(request *shard.Request, into *shard.Decision) bool {
	return r.denials.answer(request, into)
}

// DenialsKept is how many denials this node would repeat now.
func (r *Router) DenialsKept() int { return r.denials.size() }

// together reports whether all requests live on one shard, and on which.
func together(requests []shard.Request, shards uint32) (id shard.ID, one bool) {
	for i := range requests {
		at, single := shardOf(&requests[i], shards)
		if !single || i > 0 && at != id {
			return 0, false
		}
		id = at
	}
	return id, len(requests) > 0
}

// split sorts the places of requests by shard, and those apart that no single shard can decide.
func split(requests []shard.Request, shards uint32) (places [][]int, across []int) {
	places = make([][]int, shards)
	fair := len(requests)/int(shards) + len(requests)/8 + 1 // and some more: keys are spread evenly, but not quite
	for i := range requests {
		if id, one := shardOf(&requests[i], shards); one {
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

// decideAllAcross carries out the requests at the given places, a bounded number of them at the same time.
func (r *Router) decideAllAcross(ctx context.Context, requests []shard.Request, across []int, shards uint32, results []shard.Result) {
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

// atPlaces has the requests at the given places decided together and writes the answers to the same places.
func atPlaces(requests []shard.Request, places []int, results []shard.Result, decide func([]shard.Request) []shard.Result) {
	mine := make([]shard.Request, len(places))
	for i, place := range places {
		mine[i] = requests[place]
	}
	for i, result := range decide(mine) {
		results[places[i]] = result
	}
}

// shardOf places a request; false when its entries live on several shards.
func shardOf(request *shard.Request, shards uint32) (id shard.ID, one bool) {
	if target := settlesOperation(request); target != nil {
		return 0, false
	}
	id = shard.Of(request.Namespace, request.Entries[0].Key, shards)
	for i := range request.Entries[1:] {
		if shard.Of(request.Namespace, request.Entries[i+1].Key, shards) != id {
			return 0, false
		}
	}
	return id, true
}

// shardsOf places each entry of a request.
func shardsOf(request *shard.Request, shards uint32) []shard.ID {
	at := make([]shard.ID, len(request.Entries))
	for i := range at {
		at[i] = shard.Of(request.Namespace, request.Entries[i].Key, shards)
	}
	return at
}

// settlesOperation returns what a request settles if that was an operation on several shards, else nil.
func settlesOperation(request *shard.Request) *shard.Target {
	if s := request.Settlement; s != nil && s.Target.Operation != "" {
		return &s.Target
	}
	return nil
}
