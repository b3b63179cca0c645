package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Config bounds an Actor. Every zero value stands for the default beside it.
type Config struct {
	MaxBatch    int           // requests in one batch; 4,096
	MaxInFlight int           // entries under way; 1: larger batches beat overlapping ones. More than 8 are 8 (SEMANTICS R8)
	SumEvery    int           // entries between two fingerprints; 4,096 (SEMANTICS R12)
	IdleSum     time.Duration // the longest time between two fingerprints; 10 s
	OpenEvery   time.Duration // how often a leader without an epoch tries to open one; 100 ms (SEMANTICS R2c)
	OpenWithin  time.Duration // how long requests queue for an epoch before they are refused; 1.4 s

	// Requests that were submitted and are not answered yet; more are refused as Overloaded (SEMANTICS R20). A request
	// whose caller gave up counts until the actor has let go of it.
	MaxQueued      int // 65,536
	MaxQueuedBytes int // a guess: their keys, policies and ids, and a fixed sum for each; 64 MiB

	// MaxBytes is how many bytes of records the shard may hold before new keys and new idempotency ids are refused;
	// 4 GiB.
	MaxBytes int

	Now      func() time.Time // the machine's clock, with its monotonic reading; time.Now
	Observer Observer         // what is measured; the zero value measures nothing

	// Policies says what this node knows to be the newest policies; nil, or a Version of 0: it knows none. It must be
	// cheap. Without the function requests are evaluated without policies, as those of the system shard are.
	Policies func() *policy.Revision

	// Reference says how far this machine's clock is ahead of the median of the voters' clocks now; false when that
	// was not measured for a majority of them within the last 5 s. It must be cheap. Without the function this node is
	// the only voter, goes by its own clock, and has entries that cost little (pace).
	Reference func() (ahead time.Duration, ok bool)

	// AcceptStep lets the epoch of an only voter open more than 24 h past the last stamp (SEMANTICS R18).
	AcceptStep bool
}

// Observer is told what happens; nil functions are not called. They are called from the actor's loop: they must not
// block.
type Observer struct {
	// Batch is told of every installed batch: its requests, the records it changed, and its size in the log.
	Batch func(requests, effects, bytes int)
	// Commit is told how long an installed batch, fingerprint or adoption took from its proposal to its outcome.
	Commit func(took time.Duration)
	// Epoch is told the number of an epoch when it opens, and 0 when it ends, with the actor's end at the latest.
	Epoch func(epoch uint64)
	// TimeStep is told that no epoch is opened because the clock is so far past the last stamp.
	TimeStep func(last, now limit.Time)
	// Frozen is told, every 10 s at most, that shard time stands still because this owner's clock is more than 10 s
	// behind the last stamp: windows do not pass until the clock has caught up (SEMANTICS R18).
	Frozen func(behind time.Duration)
	// Full is told, every 10 s at most, that requests were refused because the shard holds MaxBytes.
	Full func()
	// Adopted is told the version of the policies that the shard's log holds: with every epoch that opens, and when
	// an adoption is installed.
	Adopted func(version uint64)
	// Unreadable is told, every 10 s at most, that no epoch is opened because the policies that the log holds cannot
	// be parsed here: an older version of the program, as a rule.
	Unreadable func(version uint64, err error)
	// ClockOff is told, every 10 s at most, that this machine's clock is more than 200 ms off the reference.
	ClockOff func(ahead time.Duration)
	// ClockWrong is told, every 10 s at most, that it is more than 10 s off: the node is to stop.
	ClockWrong func(ahead time.Duration)
	// HandOver is told, every 5 s at most while it lasts, why another node should own the shard: call Handover, from
	// another goroutine.
	HandOver func(reason string)
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxBatch, 4096)
	setDefault(&c.MaxInFlight, 1)
	c.MaxInFlight = min(c.MaxInFlight, 8)
	setDefault(&c.MaxQueued, 1<<16)
	setDefault(&c.MaxQueuedBytes, 64<<20)
	setDefault(&c.MaxBytes, 4<<30)
	setDefault(&c.SumEvery, 4096)
	setDefault(&c.IdleSum, 10*time.Second)
	setDefault(&c.OpenEvery, 100*time.Millisecond)
	setDefault(&c.OpenWithin, 1400*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// Actor decides the requests of one shard, one batch at a time. Submit may be called by any number of goroutines.
type Actor struct {
	replica Replica
	config  Config
	intake  intake        // the mailbox
	room    room          // bounds the mailbox and the queue behind it
	hints   chan struct{} // leadership may have changed
	stop    chan struct{} // closed by Close: intake has ended
	kill    chan struct{} // closed when Close has no more patience
	gone    chan struct{} // closed when the loop has ended
	opened  atomic.Uint64 // the epoch that is open; 0: none

	handing chan struct{}      // of capacity 1: a Handover is under way
	pauses  chan chan struct{} // begins a Handover: closed when nothing is under way
	resumes chan struct{}      // ends it

	stopOnce, killOnce sync.Once
	goroutines         sync.WaitGroup

	// The rest is the loop's alone.
	seq      *sequencer
	taken    []*call       // space for what is taken out of the intake
	patience *time.Timer   // ends the wait of a batch
	holding  bool          // a batch waits
	payloads chan []byte   // to the proposer
	outcomes chan outcome  // from the waiter
	quiet    chan struct{} // of the Handover that waits for what is under way; nil: none does
	clock    clock         // shard time
	steps    steps         // of the machine's clock
	closedAt time.Time     // since when no epoch is open although this node leads
	summedAt time.Time     // when the newest fingerprint was logged
	alarms   alarms
}

type outcome struct {
	shard.Outcome
	err error
}

// maxStep is how far shard time may step forward over a stop without the operator's word (SEMANTICS R18).
const maxStep = limit.Time(24 * time.Hour / time.Microsecond)

// Start starts the actor of one shard. Close must be called, before the replica is shut down.
func Start(id shard.ID, replica Replica, config Config) *Actor {
	config = config.withDefaults()
	a := &Actor{
		replica:  replica,
		config:   config,
		intake:   intake{wake: make(chan struct{}, 1), want: 1},
		room:     room{most: load{int64(config.MaxQueued), int64(config.MaxQueuedBytes)}},
		hints:    make(chan struct{}, 1),
		stop:     make(chan struct{}),
		kill:     make(chan struct{}),
		gone:     make(chan struct{}),
		seq:      newSequencer(id, config),
		payloads: make(chan []byte, config.MaxInFlight),
		outcomes: make(chan outcome, config.MaxInFlight),
		handing:  make(chan struct{}, 1),
		pauses:   make(chan chan struct{}),
		resumes:  make(chan struct{}),
		closedAt: config.Now(),
		summedAt: config.Now(),
		patience: time.NewTimer(0),
	}
	waits := make(chan func() (shard.Outcome, error), config.MaxInFlight)
	a.goroutines.Go(func() { a.propose(waits) })
	a.goroutines.Go(func() { a.await(waits) })
	a.goroutines.Go(a.loop)
	return a
}

// propose is the one goroutine that calls Replica.Propose, so entries stand in the log in the order of their stamps.
func (a *Actor) propose(waits chan<- func() (shard.Outcome, error)) {
	defer close(waits)
	for payload := range a.payloads {
		waits <- a.replica.Propose(payload)
	}
}

// await turns the fates of proposals into messages to the loop, oldest first.
func (a *Actor) await(waits <-chan func() (shard.Outcome, error)) {
	for wait := range waits {
		o, err := wait()
		a.outcomes <- outcome{o, err}
	}
}

// Submit decides requests of this actor's shard and returns one result for each, in their order, when all of them are
// committed. If ctx ends before, the results say whether the requests may have been counted.
func (a *Actor) Submit(ctx context.Context, requests []shard.Request) []shard.Result {
	if len(requests) == 0 {
		return nil
	}
	size, at := weigh(requests), laneOf(requests)
	switch {
	case size.exceeds(a.room.most):
		return failed(requests, errTooLarge)
	case a.stopping(): // a flood would keep Close waiting
		return failed(requests, errDraining)
	case !a.room.enter(size, at):
		return failed(requests, errFull)
	}
	deadline, _ := ctx.Deadline()
	c := newCall(requests, deadline, at, &a.room, size)
	if !a.intake.put(c) {
		c.release()
		return failed(requests, errDraining)
	}
	select {
	case <-c.done: // the loop does not end before it was
		return c.results
	case <-ctx.Done():
		return abandon(c)
	}
}

func (a *Actor) stopping() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// abandon gives a call up: it certainly was not applied if the loop had not begun it.
func abandon(c *call) []shard.Result {
	if c.fate.CompareAndSwap(queued, abandoned) {
		return failed(c.requests, errDeadline)
	}
	select {
	case <-c.done: // it was just answered
		return c.results
	default:
		return failed(c.requests, errUnknown)
	}
}

func failed(requests []shard.Request, err *shard.Error) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// Hint says that leadership may have changed: the actor looks at once instead of at its next tick. It never blocks.
func (a *Actor) Hint() {
	select {
	case a.hints <- struct{}{}:
	default:
	}
}

// Open reports whether an epoch of this node is open: whether the next request would be decided here.
func (a *Actor) Open() bool { return a.Epoch() != 0 }

// Epoch is the number of the epoch that this node has open; 0: none. It may be called concurrently and costs nothing.
func (a *Actor) Epoch() uint64 { return a.opened.Load() }

// Close ends intake, finishes what was submitted, and waits for the actor's goroutines. When ctx ends first, what is
// left is answered with its fate. Close waits for proposals under way in any case: Replica.Propose's wait always ends.
func (a *Actor) Close(ctx context.Context) {
	a.stopOnce.Do(func() { close(a.stop) })
	stopped := context.AfterFunc(ctx, func() { a.killOnce.Do(func() { close(a.kill) }) })
	defer stopped()
	a.goroutines.Wait()
}
