package routing

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Owner decides requests of one shard: the shard's actor in this process.
type Owner interface {
	// Submit returns one result for each request, in their order. It may be called concurrently.
	Submit(ctx context.Context, requests []shard.Request) []shard.Result
}

// Forwarder sends requests for one shard to another node, which decides them. A Hop is one.
type Forwarder interface {
	Submit(ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request) []shard.Result
}

// Config connects a Router to the rest of the node. All functions are called for every request, by any number of
// goroutines: they must be quick and never block.
type Config struct {
	Node string // id of this node
	// Slots returns the shard of each slot, and the number of data shards. It returns nil and 0 while the table is
	// unknown; requests then wait.
	Slots func() (slots *slot.Map, shards uint32)
	// Places returns the nodes of the group's voters according to the table, which may include this node. The list is
	// not changed afterwards.
	Places func(id shard.ID) []string
	// Local returns this node's actor of the shard, or nil, and whether the actor has an epoch open.
	Local func(id shard.ID) (owner Owner, open bool)
	// Leader returns the node of the Raft leader as our own replica knows it, or "" if unknown, or if there is no
	// replica here.
	Leader func(id shard.ID) string
	// Forward reaches other nodes. It may be nil if Leader, Hints and Places never name another node.
	Forward Forwarder
	Hints   *gossip.Hints
	// Sessions reports whether requests to the shard travel in sessions, that is, whether its group has more than one
	// replica.
	Sessions func(id shard.ID) bool
	// Policies returns the policies in force as far as this node knows, or nil while none are known. They determine
	// which denials may be repeated here, and which leases it takes. A nil function knows none.
	Policies func() *policy.Revision
	// Repeated receives each answer that is given here without asking the owner, with its request: a denial that is
	// repeated, or an admission from a lease. It must keep neither. nil disables it.
	Repeated func(*shard.Request, *shard.Decision)
	// EndElsewhere has the other nodes return their leases of a key, for a change of it by hand. Without a policy the key
	// is forgotten. It waits for a moment at most: a lease that is not returned lives to its end. nil: there are no
	// other nodes.
	EndElsewhere func(namespace, policy, key string)
	// Whole means that the other nodes find the shards of a request themselves, and coordinate it where these are
	// several: this process is an edge, and its Places, whatever the shard, are nodes that it may ask.
	Whole bool
	// Ahead returns how far a test has moved shard time ahead of the machine's clock; it must not shrink. nil means 0.
	Ahead func() time.Duration
	// Slept returns how long the machine has been asleep so far, which time.Since may not count. nil means never.
	Slept func() time.Duration
	// Now is the wall clock of this node. nil means the machine's.
	Now func() time.Time
}

// setDefaults replaces the optional functions that are nil.
func (c *Config) setDefaults() {
	none := func() time.Duration { return 0 }
	if c.Policies == nil {
		c.Policies = func() *policy.Revision { return nil }
	}
	if c.Repeated == nil {
		c.Repeated = func(*shard.Request, *shard.Decision) {}
	}
	if c.EndElsewhere == nil {
		c.EndElsewhere = func(string, string, string) {}
	}
	if c.Ahead == nil {
		c.Ahead = none
	}
	if c.Slept == nil {
		c.Slept = none
	}
	if c.Now == nil {
		c.Now = func() time.Time { return time.Now().Add(c.Ahead()) }
	}
}

// Router finds the owner of every request, and coordinates requests with entries on several shards. All methods may be
// called by any number of goroutines. A Router has no goroutines of its own, except for the rest of operations on
// several shards after the caller has its answer, and for leases; Close waits for that work.
type Router struct {
	config        Config
	behind        behind
	recentDenials recentDenials
	table         notifier // signals that the number of shards may be known
	learned       learnedSlots
	system        *shardRoute
	// denials is used by all entry points: Submit, Decide and Forwarded.
	denials *denials
	leases  *leases // answer for Submit and Decide; all entry points may end them

	mu     sync.Mutex                    // held while routes are added
	routes atomic.Pointer[[]*shardRoute] // of the data shards
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
				atPlaces(requests, places, results, func(mine []shard.Request) []shard.Result {
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

// atPlaces decides the requests at the given indexes together and writes the answers to the same indexes.
func atPlaces(
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
		atPlaces(requests, places, results, decide)
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
