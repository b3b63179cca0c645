package routing

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

const (
	pauseStep = 50 * time.Millisecond
	pauseMost = 200 * time.Millisecond
)

// delivery is one call: requests for one shard on their way to its owner. It has one attempt in flight at a time.
type delivery struct {
	router *Router
	route  *shardRoute
	ctx    context.Context

	batch    []shard.Request  // still undecided; not changed after it was handed over
	places   []int            // index of each batch entry in the caller's requests; nil means the same index
	one      [1]shard.Request // memory of a batch of one
	sessions bool             // the requests travel in sessions
	ranges   []sessionRange   // session numbers that the requests hold
	first    [1]sessionRange  // memory of the first range
	results  []shard.Result   // in the caller's order; nil until the first attempt
	strays   []stray          // requests that the shard has refused because of their slots

	known         evidence      // as of the choice of the latest target
	count         uint64        // route.news as last seen: another count begins a new round
	asked         []string      // nodes asked in this round
	few           [2]string     // memory of asked
	attempt       attempt       // the one in flight, if it can be canceled
	notes         []note        // of the latest round that asked a node
	pauses        time.Duration // length of the latest pause between rounds
	moment        time.Duration // the latest pause before it asked the owner itself again
	exhausted     bool          // it asked all known nodes, and none was the owner
	decisionsSeen uint64        // route.decisionsSeen when the delivery began or was last in vain
	reopened      bool          // a session was gone once already
}

// note is a node's answer to a failed attempt.
type note struct {
	node string
	err  *shard.Error
}

// target is the next node to ask.
type target struct {
	owner Owner // the local actor; nil for another node
	node  string
	blind bool // chosen from the table alone, without evidence
	// if it is blind: the route's turn as of the choice, and the one after this node
	turn, after uint32
}

// deliver gets requests for one shard decided and returns one result for each, in their order. If slots have moved, the
// shards that have them now decide.
func (r *Router) deliver(ctx context.Context, route *shardRoute, requests []shard.Request) []shard.Result {
	results, strays := r.deliverTo(ctx, route, requests)
	r.follow(ctx, strays, results)
	return results
}

// deliverTo is deliver for one shard alone. It also returns the requests that this shard has refused because of their
// slots.
func (r *Router) deliverTo(
	ctx context.Context, route *shardRoute, requests []shard.Request,
) ([]shard.Result, []stray) {
	e := &delivery{router: r, route: route, ctx: ctx, batch: requests, count: route.news.count(),
		decisionsSeen: route.decisionsSeen.Load()}
	e.asked = e.few[:0]
	if r.config.Sessions(route.id) {
		e.sessions = true
		e.batch = append(e.one[:0], requests...)
	}
	defer e.finish()
	for {
		if err := e.number(); err != nil {
			return e.giveUp(err), e.strays
		}
		t, ok := e.next()
		if !ok {
			if !e.pause() {
				return e.giveUp(route.unfound(e.tried())), e.strays
			}
			continue
		}
		results, moved := e.try(t)
		if results != nil && e.settle(t, results, moved) {
			return e.results, e.strays
		}
		if ctx.Err() != nil {
			return e.giveUp(route.unfound(e.tried())), e.strays
		}
	}
}

// needsNumber reports whether a request that travels in sessions needs a number.
func needsNumber(r *shard.Request) bool { return r.Op.Changes() && !r.CountsOnce() && r.Number == 0 }

// number gives session numbers to the requests that need one and have none.
func (e *delivery) number() *shard.Error {
	if !e.sessions {
		return nil
	}
	count := uint64(0)
	for i := range e.batch {
		if needsNumber(&e.batch[i]) {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	t, err := e.router.takeRange(e.ctx, e.route, count)
	if err != nil {
		return err
	}
	if e.ranges == nil {
		e.ranges = e.first[:0]
	}
	e.ranges = append(e.ranges, t)
	next := t.first
	for i := range e.batch {
		if r := &e.batch[i]; needsNumber(r) {
			r.Session, r.Number, r.Acked = t.session.name, next, t.acked
			next++
		}
	}
	return nil
}

// finish returns the session numbers, once the caller has its answers.
func (e *delivery) finish() {
	for i := range e.ranges {
		e.ranges[i].finish()
	}
}

// next chooses the next node to ask. It returns false when all known nodes were asked, or when it is not this caller's
// turn.
func (e *delivery) next() (target, bool) {
	if count := e.route.news.count(); count != e.count {
		e.count, e.asked = count, e.asked[:0]
	}
	if len(e.asked) == 0 && !e.route.mayAsk(e.exhausted) {
		return target{}, false
	}
	r, id := e.router, e.route.id
	e.known = r.evidence(id)
	if e.known.open && !slices.Contains(e.asked, r.config.Node) {
		return target{owner: e.known.owner, node: r.config.Node}, true
	}
	if e.mayGo(e.known.leader) {
		return target{node: e.known.leader}, true
	}
	if e.mayGo(e.known.hint.Node) {
		return target{node: e.known.hint.Node}, true
	}
	places, turn := r.config.Places(id), e.route.turn.Load()
	for i := range places {
		if node := places[(int(turn)+i)%len(places)]; e.mayGo(node) {
			return target{node: node, blind: true, turn: turn, after: turn + uint32(i) + 1}, true
		}
	}
	return target{}, false
}

// mayGo reports whether a node is known, is not this one, and was not asked in this round.
func (e *delivery) mayGo(node string) bool {
	return node != "" && node != e.router.config.Node && !slices.Contains(e.asked, node)
}

// pause waits for news or for a short time. It returns false when the caller's context has ended. A caller that was not
// allowed to ask concludes nothing: the caller that probes on behalf of all may have found the owner meanwhile.
func (e *delivery) pause() bool {
	if len(e.asked) > 0 {
		e.exhausted = true
		e.route.lose(e.count, e.decisionsSeen)
		e.decisionsSeen = e.route.decisionsSeen.Load()
	}
	e.pauses = min(e.pauses+pauseStep, pauseMost)
	timer := time.NewTimer(e.pauses)
	defer timer.Stop()
	select {
	case <-e.route.news.after(e.count):
	case <-timer.C:
	case <-e.ctx.Done():
		return false
	}
	e.asked = e.asked[:0]
	return true
}

// try makes one attempt. If all requests are repeatable, the attempt is canceled when another node turns out to be the
// owner; moved reports that. There are no results if this happened before the attempt began.
func (e *delivery) try(t target) (results []shard.Result, moved bool) {
	if t.owner != nil && !e.sessions {
		return e.submit(e.ctx, t), false // a shard with one replica has its owner here or nowhere
	}
	for i := range e.batch {
		if !repeatable(&e.batch[i]) {
			return e.submit(e.ctx, t), false
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	e.attempt = attempt{node: t.node, before: e.known, cancel: cancel}
	if !e.route.begin(&e.attempt, e.count) {
		return nil, true
	}
	results = e.submit(ctx, t)
	return results, e.route.end(&e.attempt)
}

// submit asks one node. The first one of a round ends the notes of the round before.
func (e *delivery) submit(ctx context.Context, t target) []shard.Result {
	if len(e.asked) == 0 {
		e.notes = e.notes[:0]
	}
	e.asked = append(e.asked, t.node)
	if t.owner != nil {
		return t.owner.Submit(ctx, e.batch)
	}
	return e.router.config.Forward.Submit(ctx, t.node, 0, e.route.id, e.batch)
}

// settle keeps the results that are final and packs the other requests into a new batch. It returns true when none are
// left.
func (e *delivery) settle(t target, results []shard.Result, moved bool) (done bool) {
	var again []int
	for i := range results {
		if goesOn(&e.batch[i], &results[i], moved) {
			again = append(again, i)
		} else if err := results[i].Err; err != nil && strays(err) {
			e.strays = append(e.strays, newStray(&e.batch[i], e.place(i), err))
		}
	}
	if len(again) < len(results) {
		e.route.found(e.exhausted)
	}
	if e.unanswered(results) { //mutant:silent-node-asked-first
		e.pass(t)
	}
	e.keep(results)
	if len(again) == 0 {
		return true
	}
	e.learn(t, again, results)
	e.pack(again, results)
	return false
}

// learn records a failure. A hint is dropped if its node is not the owner (X15). A node that knows the shard but not
// the session is asked again at once, the first time.
func (e *delivery) learn(t target, again []int, results []shard.Result) {
	failed := func(code shard.Code) bool {
		return slices.ContainsFunc(again, func(i int) bool { return results[i].Err.Code == code })
	}
	e.notes = append(e.notes, note{t.node, results[again[0]].Err})
	if failed(shard.NotOwner) && e.known.hint.Node == t.node {
		e.router.config.Hints.Drop(e.known.hint)
	}
	switch {
	case failed(shard.SessionGone) && !e.reopened:
		e.reopened = true
		e.asked = e.asked[:len(e.asked)-1]
	case failed(shard.TooLate):
		e.asked = e.asked[:len(e.asked)-1]
	//mutant:importing-shard-is-no-owner
	case slices.ContainsFunc(again, func(i int) bool { return inAMoment(results[i].Err) }):
		e.asked = e.asked[:len(e.asked)-1]
		e.moment = min(max(2*e.moment, momentLeast), pauseMost)
		sleep.For(e.ctx, e.moment)
	default:
		e.pass(t)
	}
}

// unanswered reports whether a node may have taken requests, or all their time, and has not answered.
func (e *delivery) unanswered(results []shard.Result) bool {
	return slices.ContainsFunc(results, func(r shard.Result) bool {
		return r.Err != nil && (r.Err.MaybeApplied() || e.ctx.Err() != nil)
	})
}

// pass has the next callers without evidence ask another node first. Callers that met the same node at the same time
// pass it once, all of them: otherwise enough of them would come back to it.
func (e *delivery) pass(t target) {
	if t.blind {
		e.route.turn.CompareAndSwap(t.turn, t.after) //mutant:each-caller-turns
	}
}

// keep stores results at their places. Results of requests that go on are replaced later.
func (e *delivery) keep(results []shard.Result) {
	if e.results == nil {
		e.results = results
		return
	}
	for i := range results {
		e.results[e.place(i)] = results[i]
	}
}

func (e *delivery) place(i int) int {
	if e.places == nil {
		return i
	}
	return e.places[i]
}

// pack builds the next batch. It allocates a new slice, because the receiver of the last one may still read it.
func (e *delivery) pack(again []int, results []shard.Result) {
	batch, places := make([]shard.Request, len(again)), make([]int, len(again))
	var gone shard.Session
	for to, from := range again {
		r, err := &batch[to], results[from].Err
		*r, places[to] = e.batch[from], e.place(from)
		switch {
		case err.MaybeApplied() && r.Op.Changes():
			r.Retry = true //mutant:new-number-for-each-copy //mutant:second-copy-unmarked
		case err.Code == shard.SessionGone:
			if r.Session != gone {
				gone = r.Session
				e.route.sessions.gone(gone)
			}
			r.Session, r.Number, r.Acked = shard.Session{}, 0, 0
		case err.Code == shard.TooLate:
			r.Session, r.Number, r.Acked, r.Retry = shard.Session{}, 0, 0, false
		}
	}
	e.batch, e.places = batch, places
}

// giveUp ends the delivery with err for all undecided requests.
func (e *delivery) giveUp(err *shard.Error) []shard.Result {
	if e.results == nil {
		e.results = make([]shard.Result, len(e.batch))
	}
	for i := range e.batch {
		e.results[e.place(i)] = shard.Result{Err: fate(&e.batch[i], err)}
	}
	return e.results
}

// tried lists the nodes that the latest round asked, and their answers.
func (e *delivery) tried() string {
	if len(e.notes) == 0 {
		return "no node is known that could be"
	}
	const uncounted = "; nothing was counted"
	var all []string
	fate := uncounted
	for _, n := range e.notes {
		text, found := strings.CutSuffix(n.err.Message, uncounted)
		if !found {
			fate = ""
		}
		if !strings.HasPrefix(text, "node "+n.node+" ") {
			text = "node " + n.node + ": " + text
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ") + fate
}
