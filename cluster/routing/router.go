package routing

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Router finds the owner of every request, and coordinates requests with entries on several shards. All methods may be
// called by any number of goroutines. A Router has no goroutines of its own, except for the rest of operations on
// several shards after the caller has its answer, and for leases; Close waits for that work.
type Router struct {
	config        Config
	background    background
	recentDenials recentDenials
	table         notifier // signals that the number of shards may be known
	learned       learnedSlots
	system        *shardRoute
	// denials is used by all entry points: Submit, Decide and Forwarded.
	denials *denials
	leases  *leases // answer for Submit and Decide; all entry points may end them

	mu     sync.Mutex                    // held while routes are added
	routes atomic.Pointer[[]*shardRoute] // of the data shards, by id; a longer list replaces it
}

// New creates a Router and registers it with config.Hints.
func New(config Config) *Router {
	config.setDefaults()
	r := &Router{config: config, system: &shardRoute{id: shard.System}, denials: newDenials(&config)}
	r.leases = newLeases(&config, r.decide)
	r.routes.Store(new([]*shardRoute))
	config.Hints.OnNews(func(id shard.ID) {
		if route := r.routeTo(id); route != nil {
			r.changed(route)
		}
	})
	return r
}

// Close returns the Router's leases and waits for its background work, for two seconds at most each, and prevents new
// work of these kinds. Requests are still decided as before.
func (r *Router) Close() {
	r.leases.Close() //mutant:stopped-node-keeps-its-leases
	r.background.mu.Lock()
	r.background.closed = true
	r.background.mu.Unlock()
	r.background.group.Wait()
}

// routeTo returns the route to a shard, or nil if it was not built yet.
func (r *Router) routeTo(id shard.ID) *shardRoute {
	routes := *r.routes.Load()
	switch {
	case id == shard.System:
		return r.system
	case int(id) < len(routes):
		return routes[id]
	}
	return nil
}

// build creates the routes to all data shards.
func (r *Router) build(shards uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routes := slices.Clone(*r.routes.Load())
	for id := len(routes); id < int(shards); id++ {
		routes = append(routes, &shardRoute{id: shard.ID(id)})
	}
	r.routes.Store(&routes)
}

// Wake tells the Router that leadership, an epoch or the table changed, so that waiting requests look again. It never
// blocks.
func (r *Router) Wake() {
	r.table.notify()
	r.changed(r.system)
	for _, route := range *r.routes.Load() {
		r.changed(route)
	}
}

func (r *Router) changed(route *shardRoute) {
	route.changed(r.evidence(route.id), r.config.Places(route.id), r.config.Node)
}

// Submit gets requests for one shard decided by its owner, on any node, and returns one result for each, in their
// order. Transient failures that certainly changed nothing are retried until ctx ends; so are unknown outcomes of
// requests that have an id or travel in a session. The caller must not change the requests or their entries until
// Submit returns. If the outcome of one is unknown, the caller must not change their Entries and Body afterwards
// either.
func (r *Router) Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
	if len(requests) == 0 {
		return nil
	}
	if id == shard.System {
		return r.deliver(ctx, r.system, requests)
	}
	_, shards, err := r.slots(ctx)
	if err == nil && uint32(id) >= shards {
		err = noSuchShard(id, shards)
	}
	if err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	return r.leases.wrap(requests, func(rest []shard.Request) []shard.Result {
		return r.denials.wrap(rest, func(rest []shard.Request) []shard.Result {
			return r.deliver(ctx, r.routeTo(id), rest)
		})
	})
}

// Place returns the shard on which a key lives. It waits until the table is known, or ctx ends.
func (r *Router) Place(ctx context.Context, namespace, key string) (shard.ID, *shard.Error) {
	slots, _, err := r.slots(ctx)
	if err != nil {
		return 0, err
	}
	return shard.Of(slots, namespace, key), nil
}

func noSuchShard(id shard.ID, shards uint32) *shard.Error {
	return shard.Invalidf("", "there is no shard %s: the cluster has %d", id, shards)
}

// slots waits until the shard of each slot is known, by the table or from a shard, and builds the routes to all shards.
func (r *Router) slots(ctx context.Context) (*slot.Map, uint32, *shard.Error) {
	for {
		count := r.table.count()
		if slots, shards := r.config.Slots(); shards > 0 {
			slots, shards = r.learned.over(slots, shards)
			if int(shards) > len(*r.routes.Load()) {
				r.build(shards)
			}
			return slots, shards, nil
		}
		select {
		case <-r.table.after(count):
		case <-time.After(pauseMost):
		case <-ctx.Done():
			return nil, 0, errNoTable
		}
	}
}

var errNoTable = &shard.Error{Code: shard.Unavailable, RetryAfter: 500e3,
	Message: "this node does not know the cluster's table yet; nothing was counted, ask again"}

// Decide is Submit for requests to any data shards: each goes to the shard of its keys, or to the one that it names.
// Requests for one shard travel together; requests for different shards are decided concurrently and independently. A
// request with entries on several shards is decided all or nothing too, in more commits (operation).
func (r *Router) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return r.leases.wrap(requests, func(rest []shard.Request) []shard.Result {
		return r.denials.wrap(rest, func(rest []shard.Request) []shard.Result { return r.decide(ctx, rest) })
	})
}

// decide is Decide without leases and kept denials.
func (r *Router) decide(ctx context.Context, requests []shard.Request) []shard.Result {
	slots, shards, err := r.slots(ctx)
	if err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	if id, one := r.together(requests, slots, shards); one {
		return r.deliver(ctx, r.routeTo(id), requests)
	}
	if len(requests) == 1 {
		return []shard.Result{r.decideAcross(ctx, &requests[0], shards)}
	}
	results := make([]shard.Result, len(requests))
	var group sync.WaitGroup
	places, across := r.split(requests, slots, shards)
	for id, places := range places {
		if len(places) > 0 {
			group.Go(func() {
				decideAt(requests, places, results, func(mine []shard.Request) []shard.Result {
					return r.deliver(ctx, r.routeTo(shard.ID(id)), mine)
				})
			})
		}
	}
	r.decideAllAcross(ctx, requests, across, shards, results)
	group.Wait()
	return results
}

// Repeat answers a check without asking the owner: with a denial that this node may repeat, or from a lease. It is for
// a caller that would otherwise batch the check with others and wait for them. It returns false if the check must be
// decided. It never blocks.
func (r *Router) Repeat(request *shard.Request, into *shard.Decision) bool {
	if revision := r.leases.revision(); revision != nil && r.leases.answer(revision, request, false, into) {
		return true
	}
	return r.denials.answer(request, into)
}

// LeasesHeld returns how many leases this node holds.
func (r *Router) LeasesHeld() int { return r.leases.Held() }

// DenialsKept returns how many denials this node would repeat now.
func (r *Router) DenialsKept() int { return r.denials.size() }
