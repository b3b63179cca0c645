package actor

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Config configures an Actor. A zero value means the default named with the field.
type Config struct {
	MaxBatch int // requests in one batch; 4,096
	SumEvery int // entries between two sum entries; 4,096 (R12)
	// IdleSum is the longest time between two sum entries; 10 s. An idle shard with much to sweep uses OpenEvery.
	IdleSum    time.Duration
	OpenEvery  time.Duration // how often a leader without an epoch tries to open one; 100 ms (R2c)
	OpenWithin time.Duration // how long requests queue for an epoch before they are refused; 1.4 s

	// Bounds on submitted requests without an answer; further ones are refused as Overloaded (R20). An abandoned
	// request counts until the actor has released it.
	MaxQueued      int // 65,536
	MaxQueuedBytes int // an estimate: their keys, policies and ids, and a fixed sum for each; 64 MiB

	// Room returns how much room there is for records. It is asked before each batch, while the state does not change,
	// and must be cheap. nil sets no bound.
	Room func() shard.Room

	// Slots returns the table's shards of all slots, for those of which the shard has no record (shard.Stamp); nil: it
	// has all. It must be cheap. A nil function means the same.
	Slots func() *slot.Map

	Now      func() time.Time // the machine's clock, with its monotonic reading; time.Now
	Observer Observer         // receives measurements and alarms; the zero value receives none

	// Ahead returns how far a test has moved shard time ahead of the reference; it must not shrink. nil means 0.
	Ahead func() time.Duration

	// Policies returns the newest policies that this node knows; nil, or a Version of 0, if it knows none. It must be
	// cheap. A nil function evaluates requests without policies, like those of the system shard.
	Policies func() *policy.Revision

	// Reference returns how far this machine's clock is ahead of the median of the voters' clocks now; ok is false if
	// that was not measured for a majority of them within the last 5 s. It must be cheap. A nil function means that
	// this node is the only voter: its own clock is the reference, and its entries cost little (pace).
	Reference func() (ahead time.Duration, ok bool)

	// Suspended returns how long this machine has been suspended since it was started. The time of an only voter
	// advances by that, and not when its clock is set. nil means unknown, which counts as zero.
	Suspended func() time.Duration

	// Level returns the cluster's feature level, which is stamped on each batch: the batch contains nothing newer. It
	// must be cheap, and must not return more than every voter can read. nil means shard.LevelNewest.
	Level func() shard.Level

	// Stopped returns the reason why this node must not decide although it leads: the shard's records cannot be
	// trusted. It returns nil if there is none. Otherwise requests are refused with this error and never evaluated,
	// while sum entries are still logged. It must be cheap. A nil function never stops the shard.
	Stopped func() *shard.Error

	// Top bounds the memory of the boards of the busiest keys, for all actors that share it. nil disables the board.
	Top *top.Budget

	// Watched reports whether Observer.Happened has a listener. It must be cheap. nil means no.
	Watched func() bool

	// AcceptStep lets an only voter's epoch open more than 24 h past the last stamp (R18).
	AcceptStep bool
}

// Observer receives the events of an actor. nil functions are not called. They are called from the actor's loop and
// must not block.
type Observer struct {
	// Batch is called for every installed batch with its requests, the number of records that it changed, and its size
	// in the log.
	Batch func(requests, effects, bytes int)
	// Commit is called with the time that an installed batch, sum entry or adoption took from its proposal to its
	// outcome.
	Commit func(took time.Duration)
	// Happened is called with the changes of keys in an installed batch, if it was Watched when it was evaluated.
	Happened func([]shard.Happening)
	// Epoch is called with the number of an epoch when it opens, and with 0 when it ends, at the latest when the actor
	// ends.
	Epoch func(epoch uint64)
	// TimeStep is called when no epoch is opened because the clock is more than 24 h past the last stamp (R18).
	TimeStep func(last, now limit.Time)
	// Frozen is called, every 10 s at most, while shard time stands still because this owner's clock is more than 10 s
	// behind the last stamp: windows do not pass until the clock has caught up (R18).
	Frozen func(behind time.Duration)
	// Full is called, every 10 s at most, when requests were refused because there is no room for records
	// (Config.Room).
	Full func()
	// Capped is called, every 10 s at most, when new keys were refused because their policy or namespace is at its cap.
	Capped func(refusal *shard.Error)
	// Fault is called, every 10 s at most, when a defect of the program made a request fail. Only that request failed
	// (shard.Fault).
	Fault func(met *shard.Error)
	// Unreadable is called, every 10 s at most, while no epoch is opened because the policies in the log cannot be
	// parsed here, usually because the program is too old.
	Unreadable func(version uint64, err error)
	// ClockOff is called, every 10 s at most, while this machine's clock is more than 200 ms off the reference.
	ClockOff func(ahead time.Duration)
	// ClockSet is called, every 10 min at most, while the clock of an only voter differs by more than 200 ms from the
	// time that has passed since the actor began: the clock was set.
	ClockSet func(ahead time.Duration)
	// ClockWrong is called, every 10 s at most, while this machine's clock is more than 10 s off the reference: the
	// node should stop.
	ClockWrong func(ahead time.Duration)
	// HandOver is called, every 5 s at most, while another node should own the shard, with the reason. Call Handover
	// from another goroutine.
	HandOver func(reason string)
}

func (c Config) withDefaults() Config {
	c.MaxBatch = cmp.Or(c.MaxBatch, 4096)
	c.MaxQueued = cmp.Or(c.MaxQueued, 1<<16)
	c.MaxQueuedBytes = cmp.Or(c.MaxQueuedBytes, 64<<20)
	c.SumEvery = cmp.Or(c.SumEvery, 4096)
	c.IdleSum = cmp.Or(c.IdleSum, 10*time.Second)
	c.OpenEvery = cmp.Or(c.OpenEvery, 100*time.Millisecond)
	c.OpenWithin = cmp.Or(c.OpenWithin, 1400*time.Millisecond)
	if c.Stopped == nil {
		c.Stopped = func() *shard.Error { return nil }
	}
	if c.Room == nil {
		c.Room = func() shard.Room { return shard.Room{} }
	}
	if c.Slots == nil {
		c.Slots = func() *slot.Map { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Level == nil {
		c.Level = func() shard.Level { return shard.LevelNewest }
	}
	return c
}

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
	holding  bool          // a batch waits
	payloads chan []byte   // to the proposer
	outcomes chan outcome  // from the proposer
	quiet    chan struct{} // of the Handover that waits for the entry under way; may be nil
	clock    clock         // shard time
	own      ownTime       // the reference of an only voter
	steps    steps         // of the machine's clock
	closedAt time.Time     // since when no epoch is open although this node leads
	summedAt time.Time     // when the newest sum entry was logged
	alarms   alarms

	board     *top.Board // the busiest keys; nil if they are not counted
	continues bool       // the newest EpochOpen follows this node's own epoch, with none of another node between them
}

type outcome struct {
	shard.Outcome
	err error
}

// maxStep is how far shard time may step forward after a stop without the operator's consent (R18).
const maxStep = limit.Time(24 * time.Hour / time.Microsecond)

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
// applied. Errors are *shard.Error (Result.Err); Error.MaybeApplied distinguishes the two. Submit may be called by any
// number of goroutines.
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

// abandon gives up a call. Its requests are certainly not applied if the loop has not begun it.
func abandon(c *call) []shard.Result {
	if c.fate.CompareAndSwap(queued, abandoned) {
		return shard.RefuseAll(len(c.requests), errDeadline)
	}
	select {
	case <-c.done: // it was just answered
		return c.results
	default:
		return shard.RefuseAll(len(c.requests), errUnknown)
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
// returns.
func (a *Actor) Close(ctx context.Context) {
	a.stop()
	defer context.AfterFunc(ctx, a.kill)()
	a.goroutines.Wait()
}
