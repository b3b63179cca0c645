package redis

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/convoy"
	"github.com/stint-io/stint/shard"
)

// Bounds on what waits.
const (
	laneRequestsMost = 1 << 14
	laneBytesMost    = 8 << 20
	requestsMost     = 1 << 17
)

// Bounds on a call: what the owner decides at once, and what another node is sent at once. A round fits by itself.
const (
	callRequestsMost = 4096
	callBytesMost    = 640 << 10 // of keys, and requestBytes for each request
	requestBytes     = 64
)

// gatherer has one lane for each shard. It may be used by any number of goroutines.
type gatherer struct {
	router  Router
	timeout time.Duration
	waiting atomic.Int64 // requests that are not answered
	calls   sync.WaitGroup
	closing chan struct{} // closed by hurry: no call waits for more any longer
	hurry   func()        // may be called more than once

	mu    sync.Mutex // of those who make lanes
	lanes atomic.Pointer[[]*lane]
}

func newGatherer(router Router, timeout time.Duration) *gatherer {
	g := &gatherer{router: router, timeout: timeout, closing: make(chan struct{})}
	g.hurry = sync.OnceFunc(func() { close(g.closing) })
	g.lanes.Store(new([]*lane))
	return g
}

func (g *gatherer) laneOf(id shard.ID) *lane {
	if lanes := *g.lanes.Load(); int(id) < len(lanes) {
		return lanes[id]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lanes := *g.lanes.Load()
	for next := len(lanes); next <= int(id); next++ {
		l := &lane{gatherer: g, id: shard.ID(next), back: make(chan struct{}, 1)}
		l.work = l.run
		lanes = append(lanes[:next:next], l)
	}
	g.lanes.Store(&lanes)
	return lanes[id]
}

// place says where a key lives. It waits while nobody knows how many shards there are.
func (g *gatherer) place(key string) (shard.ID, *shard.Error) {
	id, err := g.router.Place(over, shard.DefaultNamespace, key)
	if err == nil {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	return g.router.Place(ctx, shard.DefaultNamespace, key)
}

// over is a context without any time left.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// lane is the way to one shard. It has one call under way: measured on two cores, a second one beside it takes a third from what a
// call carries, and costs a fifth more CPU a command. The next call waits a moment for the connections that were just answered.
type lane struct {
	gatherer *gatherer
	id       shard.ID
	work     func()        // run
	back     chan struct{} // of capacity 1: as many rounds wait as the next call wants

	mu     sync.Mutex  // guards the rest
	queue  []*batch    // what waits: for the next call, and for those after it
	held   load        // by the queue
	rounds int         // in the queue: of so many connections
	pace   convoy.Pace // how long the next call waits, for how many rounds
	want   int         // the next call waits for so many rounds; 0: it does not
	under  bool        // a call is under way, or waits
	spare  []*batch    // to be used again
}

// batch is the requests of one call and those who wait for it. It belongs to its lane while it is open, then to its call.
type batch struct {
	since    time.Time // when the first of them came
	load     load
	requests []shard.Request
	entries  []shard.Entry
	terms    []shard.TallyTerms
	commands []*command // of the requests
	rounds   []*round
}

var errFull = &shard.Error{Code: shard.Overloaded, Message: "too many commands wait for this shard on this node; " +
	"nothing was counted; ask again"}

// load is what waits, in numbers.
type load struct{ requests, bytes int }

func (l *load) add(more load) {
	l.requests += more.requests
	l.bytes += more.bytes
}

// add takes a part of a round, or answers it if there is no room. A part travels in one call, so that its commands keep
// their order.
func (l *lane) add(r *round, p part) {
	l.mu.Lock()
	if l.held.requests >= laneRequestsMost || l.held.bytes >= laneBytesMost || l.gatherer.waiting.Load() >= requestsMost {
		l.mu.Unlock()
		for i := p.first; i >= 0; i = r.commands[i].next {
			r.commands[i].err = errFull
		}
		r.partDone()
		return
	}
	b := l.open(p.load)
	for i := p.first; i >= 0; i = r.commands[i].next {
		b.add(&r.commands[i])
	}
	b.rounds = append(b.rounds, r)
	b.load.add(p.load)
	l.held.add(p.load)
	l.gatherer.waiting.Add(int64(p.requests))
	l.rounds++
	if l.want > 0 && (l.rounds >= l.want || len(l.queue) > 1) {
		l.want = 0
		l.back <- struct{}{} // has room: it is emptied before want is set
	}
	start := !l.under
	l.under = true
	l.mu.Unlock()
	if start {
		l.gatherer.calls.Go(l.work)
	}
}

// open is the batch that takes more.
func (l *lane) open(more load) *batch {
	if last := len(l.queue) - 1; last >= 0 {
		b := l.queue[last]
		if b.load.requests+more.requests <= callRequestsMost && b.load.bytes+more.bytes <= callBytesMost {
			return b
		}
	}
	var b *batch
	if last := len(l.spare) - 1; last >= 0 {
		b, l.spare = l.spare[last], l.spare[:last]
	} else {
		b = new(batch)
	}
	b.since = time.Now()
	l.queue = append(l.queue, b)
	return b
}

// take is what the next call carries. There must be something.
func (l *lane) take() *batch {
	b := l.queue[0]
	n := copy(l.queue, l.queue[1:])
	l.queue[n] = nil
	l.queue = l.queue[:n]
	l.held.add(load{-b.load.requests, -b.load.bytes})
	l.rounds -= len(b.rounds)
	return b
}

// repliesAlone is how many rounds one goroutine hands back by itself. A reply is mostly the kernel's write to a socket, and
// as long as the last one is not written nobody asks for what the disk could do meanwhile.
const repliesAlone = 20

// reply hands the rounds back. Their connections are answered unless they wait for other calls, too.
func (b *batch) reply() {
	if len(b.rounds) <= repliesAlone {
		handBack(b.rounds)
		return
	}
	half := len(b.rounds) / 2
	var other sync.WaitGroup
	other.Go(func() { handBack(b.rounds[:half]) })
	handBack(b.rounds[half:])
	other.Wait()
}

func handBack(rounds []*round) {
	for _, r := range rounds {
		r.partDone()
	}
}

func (b *batch) add(c *command) {
	e := len(b.entries)
	b.entries = append(b.entries, shard.Entry{Policy: c.policy, Key: c.key, Cost: c.cost, Limits: c.limits})
	request := shard.Request{Op: c.op, Namespace: shard.DefaultNamespace, Entries: b.entries[e : e+1 : e+1]}
	if c.op == shard.Tally {
		b.terms = append(b.terms, c.terms)
		request.Tally = &b.terms[len(b.terms)-1]
	}
	b.requests = append(b.requests, request)
	b.commands = append(b.commands, c)
}

// run makes one call. If the next one waits for those whom this one answers, the replies are written first. If not, what
// waits is on its way before the replies are written: while the disk is busy with the one, the processors are with the other.
func (l *lane) run() {
	runtime.Gosched() // whoever can read now joins this call
	b := l.depart()
	began := time.Now()
	reusable := l.call(b)
	l.mu.Lock()
	now := time.Now()
	replied := l.pace.Answered(len(b.rounds), l.rounds, now.Sub(began), now)
	if replied {
		l.mu.Unlock()
		b.reply()
		l.mu.Lock()
	}
	if l.under = len(l.queue) > 0; l.under {
		l.gatherer.calls.Go(l.work)
	}
	l.mu.Unlock()
	if !replied {
		b.reply()
	}
	if reusable {
		l.keep(b)
	}
}

// depart is what the next call carries, when it goes.
func (l *lane) depart() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if len(l.queue) > 1 {
			l.pace.End() // more would not go with it
		}
		due := l.queue[0].since.Add(l.gatherer.timeout / 2)
		left := l.pace.Left(l.rounds, due, time.Now())
		if left <= 0 {
			return l.take()
		}
		l.want = l.pace.Target()
		l.mu.Unlock()
		ended := l.await(left)
		l.mu.Lock()
		if l.want = 0; ended {
			l.pace.End()
		}
		select { // a round may have come just as the wait ended
		case <-l.back:
		default:
		}
	}
}

// await waits for as many rounds as are wanted. It reports whether nothing is to be waited for any more.
func (l *lane) await(atMost time.Duration) (ended bool) {
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case <-l.back:
		return false
	case <-patience.C:
	case <-l.gatherer.closing:
	}
	return true
}

// call has a batch decided and keeps the answers. It reports whether nobody reads the requests any more.
func (l *lane) call(b *batch) (reusable bool) {
	ctx, cancel := context.WithDeadline(context.Background(), b.since.Add(l.gatherer.timeout))
	results := l.gatherer.router.Submit(ctx, l.id, b.requests)
	cancel()
	reusable = true
	for i := range results {
		b.commands[i].settle(&results[i])
		if err := results[i].Err; err != nil && err.MaybeApplied() {
			reusable = false
		}
	}
	l.gatherer.waiting.Add(-int64(len(results)))
	return reusable
}

// keep has a batch used again, unless it is of an unusual size.
func (l *lane) keep(b *batch) {
	const usual = 2048
	if cap(b.requests) > usual {
		return
	}
	clear(b.requests)
	clear(b.entries)
	clear(b.commands)
	clear(b.rounds)
	*b = batch{requests: b.requests[:0], entries: b.entries[:0], terms: b.terms[:0], commands: b.commands[:0], rounds: b.rounds[:0]}
	l.mu.Lock()
	if len(l.spare) < 2 {
		l.spare = append(l.spare, b)
	}
	l.mu.Unlock()
}
