package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
)

// Actor decides the requests of one shard, one batch at a time. Its methods may be called concurrently.
type Actor struct {
	replica   Replica
	config    Config
	intake    intake        // the mailbox
	admission admission     // bounds the mailbox and the queue after it
	hints     chan struct{} // leadership may have changed
	gone      chan struct{} // closed when the loop has ended
	opened    atomic.Uint64 // the open epoch; 0 if there is none

	asks    chan func()   // run by the loop
	handing chan struct{} // of capacity 1: full while a Handover is under way

	stopping   context.Context // ends with Close: no new requests
	stop       context.CancelFunc
	killed     context.Context // ends with the context of Close
	kill       context.CancelFunc
	goroutines sync.WaitGroup

	// The remaining fields belong to the loop.
	seq      *sequencer
	taken    []*call       // reused space for the calls taken from the intake
	patience *time.Timer   // ends the wait of a batch
	holding  bool          // a batch waits; while false, patience may fire for a wait that is over
	payloads chan []byte   // to the proposer
	outcomes chan outcome  // from the proposer
	quiet    chan struct{} // closed for the Handover that waits for the entry under way; nil if none does
	clock    clock         // shard time
	own      ownTime       // the reference of an only voter
	steps    clockSteps    // of the machine's clock
	closedAt time.Time     // since when no epoch is open although this node leads
	summedAt time.Time     // when the newest sum entry was logged
	alarms   alarms

	board     *top.Board // the busiest keys; nil if they are not counted
	continues bool       // the newest EpochOpen follows this node's own epoch, with none of another node between them
}

// outcome is the result of the one proposal under way. With an err the Outcome means nothing.
type outcome struct {
	shard.Outcome
	err error
}

// Start starts the actor of one shard. Close must be called, before the replica is shut down.
func Start(id shard.ID, replica Replica, config Config) *Actor {
	config = config.withDefaults()
	a := &Actor{
		replica:   replica,
		config:    config,
		intake:    intake{wake: make(chan struct{}, 1), want: 1},
		admission: admission{most: load{int64(config.MaxQueued), int64(config.MaxQueuedBytes)}},
		hints:     make(chan struct{}, 1),
		gone:      make(chan struct{}),
		seq:       newSequencer(id, config),
		payloads:  make(chan []byte, 1),
		outcomes:  make(chan outcome, 1),
		handing:   make(chan struct{}, 1),
		closedAt:  config.Now(),
		summedAt:  config.Now(),
		patience:  time.NewTimer(0),
		asks:      make(chan func()),
	}
	a.stopping, a.stop = context.WithCancel(context.Background())
	a.killed, a.kill = context.WithCancel(context.Background())
	if config.Top != nil {
		a.board = top.NewBoard(config.Top, config.Now().UnixMicro())
	}
	a.goroutines.Go(a.propose)
	a.goroutines.Go(a.loop)
	return a
}

// propose runs on the one goroutine that calls Replica.Propose. It turns the outcome of each proposal into a message to
// the loop.
func (a *Actor) propose() {
	for payload := range a.payloads {
		o, err := a.replica.Propose(payload)()
		a.outcomes <- outcome{o, err}
	}
}

// Submit decides requests of this actor's shard. It returns one result for each, in their order, when all of them are
// committed. If ctx ends earlier, the results say whether the requests were certainly not applied or may have been
// applied. Errors are *shard.Error (Result.Err); Error.MaybeApplied distinguishes the two. If a request may have been
// applied, the loop may still read the requests after Submit has returned: the caller must not change them. Submit may
// be called by any number of goroutines.
func (a *Actor) Submit(ctx context.Context, requests []shard.Request) []shard.Result {
	if len(requests) == 0 {
		return nil
	}
	size, at := weigh(requests), classOf(requests)
	switch {
	case size.exceeds(a.admission.most):
		return shard.RefuseAll(len(requests), errTooLarge)
	case a.stopping.Err() != nil: // otherwise a flood of requests would keep Close waiting
		return shard.RefuseAll(len(requests), errDraining)
	case !a.admission.enter(size, at):
		return shard.RefuseAll(len(requests), errFull)
	}
	deadline, _ := ctx.Deadline()
	c := newCall(requests, deadline, at, &a.admission, size)
	if c.followed = tracesOf(requests); c.followed != nil {
		c.reached(shard.TraceQueued, a.config.Now())
	}
	if !a.intake.put(c) {
		c.release()
		return shard.RefuseAll(len(requests), errDraining)
	}
	select {
	case <-c.done: // always signaled before the loop ends
		return c.results
	case <-ctx.Done():
		return abandon(c)
	}
}

// Hint means that leadership may have changed: the actor checks at once instead of at its next tick. It never blocks.
func (a *Actor) Hint() {
	select {
	case a.hints <- struct{}{}:
	default:
	}
}

// Open reports whether this node has an open epoch, so that it would decide the next request.
func (a *Actor) Open() bool { return a.Epoch() != 0 }

// Epoch returns the number of this node's open epoch, or 0 if there is none. It is cheap and may be called
// concurrently.
func (a *Actor) Epoch() uint64 { return a.opened.Load() }

// Close refuses new requests, finishes the submitted ones, and waits for the actor's goroutines. If ctx ends first, the
// queued requests are refused as not applied. Close always waits for proposals under way; Replica.Propose's wait always
// returns. It may be called again.
func (a *Actor) Close(ctx context.Context) {
	a.stop()
	defer context.AfterFunc(ctx, a.kill)()
	a.goroutines.Wait()
}
