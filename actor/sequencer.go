package actor

import (
	"errors"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// sequencer is the logic of an actor: it takes calls and outcomes, and produces entries and answers. It has no
// goroutine, waits on no channel, and reads no clock. One goroutine owns it: the Actor's loop or a test.
type sequencer struct {
	id       shard.ID
	config   Config
	state    epochState
	epoch    uint64     // number of the open epoch, or of this node's last one; 0 before its first
	seq      uint64     // of the newest entry proposed in it
	last     limit.Time // stamp of the newest entry proposed; shard time never falls below it
	queue    queue      // waiting calls
	queued   int        // number of requests in the queue
	dueBy    time.Time  // a lower bound on the deadlines of the queued calls; zero if none has one
	inFlight *flight    // the one proposal under way (X9); nil if there is none
	rules    rules
	paused   bool          // for a handover: nothing is proposed
	sumDue   int           // entries until the next sum entry; at 0 or below it goes next
	commit   time.Duration // moving average of the time that a commit takes; 0 until one is measured
	pace     pace

	// whyClosed is the certain error of the newest EpochOpen, or the missing condition for proposing one; nil if
	// neither is known.
	whyClosed   *shard.Error
	refusedFull bool         // requests were refused for the memory cap since the loop last looked
	refusedCap  *shard.Error // a request was refused for the cap of its policy or namespace since then; may be nil
	fault       *shard.Error // a defect of the program, met since the loop last looked
}

// epochState is whether this node may decide.
type epochState uint8

const (
	closed  epochState = iota // no epoch is open; proposals of the last one may still be under way
	opening                   // this node's EpochOpen is under way
	open
)

func newSequencer(id shard.ID, config Config) *sequencer {
	return &sequencer{id: id, config: config, sumDue: config.SumEvery,
		pace: pace{others: config.Reference != nil, most: min(targetMost, config.MaxBatch)}}
}

func (q *sequencer) enqueue(c *call) {
	if q.queued == 0 {
		q.dueBy = time.Time{}
	}
	if !c.deadline.IsZero() && (q.dueBy.IsZero() || c.deadline.Before(q.dueBy)) {
		q.dueBy = c.deadline
	}
	q.queue.push(c)
	q.queued += len(c.requests)
}

// hold returns how much longer the next batch waits for callers that were just answered; 0 or less if it goes now.
func (q *sequencer) hold(wall time.Time) time.Duration {
	if q.queued == 0 || q.sumDue <= 0 || q.rules.due() {
		return 0
	}
	due := q.dueBy
	if !due.IsZero() {
		due = due.Add(-q.margin())
	}
	return q.pace.left(q.queued, due, wall)
}

// margin is how long before its deadline a call is proposed at the latest, as far as the wait decides it: twice the
// time of a commit.
func (q *sequencer) margin() time.Duration { return 2 * q.commit }

// wants returns when to wake the loop: at this many more requests, or at a call with a deadline before dueBefore.
func (q *sequencer) wants() (more int, dueBefore time.Time) {
	switch {
	case q.state != open || q.paused:
		return 1, time.Time{}
	case q.inFlight != nil:
		return never, time.Time{} // the outcome of an entry wakes the loop
	case q.queued > 0 && q.pace.bound > 0:
		return max(1, q.pace.target-q.queued), q.pace.until.Add(q.margin())
	}
	return 1, time.Time{}
}

// canOpen reports whether an EpochOpen may be proposed: every older proposal has its outcome.
func (q *sequencer) canOpen() bool {
	return q.state == closed && q.inFlight == nil && !q.paused //mutant:proposes-during-handover
}

// idle reports whether nothing waits and nothing is under way.
func (q *sequencer) idle() bool { return q.queue.len() == 0 && q.inFlight == nil }

// hasWork reports whether next would have something to propose.
func (q *sequencer) hasWork() bool { return q.queue.len() > 0 || q.sumDue <= 0 || q.rules.due() }

// openEpoch makes the EpochOpen.
func (q *sequencer) openEpoch(now limit.Time, wall time.Time) []byte {
	q.state = opening
	q.inFlight = &flight{began: wall}
	return shard.EncodeEpochOpen(q.id, now, q.config.Level())
}

// canPropose reports whether the next entry may be proposed: it is evaluated on the state with the entry before it
// installed (X9). A pause ends the epoch when no entry is under way (quiet).
func (q *sequencer) canPropose() bool {
	return q.state == open && q.inFlight == nil //mutant:evaluates-without-the-last-entry
}

// stamp returns the position and time of the next entry (R18): time stands still while the clock is behind.
func (q *sequencer) stamp(now limit.Time) shard.Stamp {
	return shard.Stamp{
		Position: shard.Position{Shard: q.id, Epoch: q.epoch, Seq: q.seq + 1},
		Now:      max(q.last+1, now), //mutant:wall-clock-for-shard-time
		Level:    q.config.Level(),
		Slots:    q.config.Slots(),
	}
}

// next makes the next entry from the queue, or returns nil if there is nothing to propose. state must not change during
// the call.
func (q *sequencer) next(state *shard.State, now limit.Time, wall time.Time) []byte {
	if state.Epoch() != q.epoch { // another node opened an epoch: no entry of this one can be installed anymore
		q.close()
		return nil
	}
	if q.sumDue <= 0 {
		return q.nextSum(now, wall)
	}
	if q.rules.due() {
		return q.nextAdoption(state, now, wall)
	}
	requests := q.gather(wall)
	if len(requests) == 0 {
		return nil
	}
	at := q.stamp(now)
	seen := view{state, q.config.Room()}
	results, puts := shard.Evaluate(seen, q.rules.adopted.Set, requests, at) //mutant:evaluates-by-unlogged-policies
	q.noteRefusals(results)
	if err := results[len(results)-1].Err; err != nil && err.Code == shard.Fault { // the batch ends with it
		q.fault = err
	}
	payload := shard.EncodeBatch(at, puts)
	var happened []shard.Happening
	if q.config.Watched != nil && q.config.Watched() {
		happened = shard.Happenings(seen, puts, at)
	}
	q.propose(at, flight{parts: q.take(len(results)), results: results, began: wall,
		bytes: len(payload), effects: len(puts), happened: happened})
	q.sumDue--
	return payload //mutant:no-gate
}

// view is the state as the next batch sees it.
type view struct {
	*shard.State
	room shard.Room
}

// Room implements shard.View.
func (v view) Room() shard.Room { return v.room }

// noteRefusals remembers what the loop reports. A refusal for a cap names the field, since it is about one policy or
// namespace.
func (q *sequencer) noteRefusals(results []shard.Result) {
	for i := range results {
		switch err := results[i].Err; {
		case err == nil || err.Code != shard.MemoryFull:
		case err.Field == "":
			q.refusedFull = true
		default:
			q.refusedCap = err
		}
	}
}

// nextSum makes the entry at which all replicas record their sums.
func (q *sequencer) nextSum(now limit.Time, wall time.Time) []byte {
	at := q.stamp(now)
	q.sumDue = q.config.SumEvery
	q.propose(at, flight{began: wall})
	return shard.EncodeSum(at)
}

// propose makes an entry the one under way. The caller passes its payload to the proposer.
func (q *sequencer) propose(at shard.Stamp, f flight) {
	q.seq, q.last = at.Seq, at.Now
	f.epoch, f.seq = at.Epoch, at.Seq
	f.reached(shard.TraceProposed, f.began)
	q.inFlight = &f
}

// gather collects the next requests, as many as a batch may have. It skips requests that are abandoned, or will be
// before a commit can complete: they are not worth deciding (R20).
func (q *sequencer) gather(wall time.Time) (requests []shard.Request) {
	requests = make([]shard.Request, 0, min(q.queued, q.config.MaxBatch))
	for at := range q.queue {
		requests = q.gatherClass(queueClass(at), requests, wall)
	}
	return requests
}

// gatherClass appends requests of one class. It removes only the calls that it skips: a call that is gathered stays in
// the queue until take, because Evaluate may stop before it.
func (q *sequencer) gatherClass(at queueClass, requests []shard.Request, wall time.Time) []shard.Request {
	calls := q.queue[at]
	kept, seen := calls[:0], 0
	for ; seen < len(calls) && len(requests) < q.config.MaxBatch; seen++ {
		c := calls[seen]
		if c.taken == 0 && !q.start(c, wall) {
			q.queued -= len(c.requests)
			c.release()
			continue
		}
		kept = append(kept, c)
		rest := c.requests[c.taken:]
		requests = append(requests, rest[:min(len(rest), q.config.MaxBatch-len(requests))]...)
	}
	dropped := seen - len(kept)
	copy(calls[dropped:seen], kept) // move the few kept calls, not the many after them: an overloaded queue is long
	q.queue[at] = calls[dropped:]
	return requests
}

// take removes from the queue the first n requests, which were decided.
func (q *sequencer) take(n int) (parts []part) {
	for n > 0 {
		at := q.queue.first()
		c := q.queue[at][0]
		to := min(len(c.requests), c.taken+n)
		parts = append(parts, part{c, c.taken, to})
		n -= to - c.taken
		q.queued -= to - c.taken
		c.taken = to
		if to == len(c.requests) {
			q.queue[at] = q.queue[at][1:]
		}
	}
	return parts
}

// start reports whether a call is to be decided. If so, a caller that gives up from then on is told that the outcome is
// unknown. start answers a call with a deadline that is too near; an abandoned one has no reader.
func (q *sequencer) start(c *call, wall time.Time) bool {
	if c.fate.Load() == started {
		return true
	}
	if !c.fate.CompareAndSwap(queued, started) {
		return false //mutant:abandoned-call-runs
	}
	if !c.deadline.IsZero() && c.deadline.Sub(wall) < q.commit {
		// Nothing is measured while all are refused, so one stall must not count against them forever.
		q.commit -= q.commit / 8
		c.fail(0, len(c.requests), errTooShort)
		return false
	}
	return true
}

// settle takes the outcome of the proposal under way and answers the calls that waited for it. It reports whether the
// proposal was installed.
func (q *sequencer) settle(o shard.Outcome, err error, wall time.Time) (f *flight, installed bool) {
	f, q.inFlight = q.inFlight, nil
	if f.seq == 0 {
		return f, q.settleOpen(o, err)
	}
	if failure := f.failure(o, err); failure != nil {
		q.close() //mutant:failed-proposal-keeps-the-epoch
		f.fail(failure)
		return f, false
	}
	if q.state == open {
		q.commit = (q.commit*7 + wall.Sub(f.began)) / 8
		if len(f.results) > 0 {
			q.pace.committed(wall.Sub(f.began), q.commit, len(f.results), q.queued, wall)
		}
	}
	f.reached(shard.TraceInstalled, wall)
	f.openGate()
	return f, true
}

// settleOpen is settle for an EpochOpen. An epoch that it opens may still end for want of policies (takeUp).
func (q *sequencer) settleOpen(o shard.Outcome, err error) (installed bool) {
	q.whyClosed = nil
	if err != nil || o.Dropped != shard.NotDropped {
		q.close()
		q.whyClosed = refusal(err)
		return false
	}
	q.state, q.epoch, q.seq, q.last = open, o.Epoch, 0, o.Time
	q.sumDue = q.config.SumEvery
	return true
}

// refusal returns why an EpochOpen is certainly in no log, or nil if that is not certain. Requests queued behind it
// were never proposed, so an unknown outcome of the EpochOpen is not theirs.
func refusal(err error) *shard.Error {
	var known *shard.Error
	if errors.As(err, &known) && !known.MaybeApplied() {
		return known
	}
	return nil
}

// close ends the epoch: nothing more is proposed in it.
func (q *sequencer) close() { q.state = closed }

// pause stops proposing until resume, for a handover.
func (q *sequencer) pause() { q.paused = true }

// quiet reports whether every proposal has its outcome since pause; then it ends the epoch.
func (q *sequencer) quiet() bool {
	if !q.paused || q.inFlight != nil { //mutant:handover-does-not-wait //mutant:handover-forgets-what-is-under-way
		return false
	}
	q.close()
	return true
}

// resume lets the next epoch be opened.
func (q *sequencer) resume() {
	q.paused = false
	q.close()
}

// failQueued answers all requests that were never proposed.
func (q *sequencer) failQueued(err *shard.Error) {
	for _, c := range slices.Concat(q.queue[:]...) {
		if c.fate.CompareAndSwap(queued, started) || c.fate.Load() == started {
			c.fail(c.taken, len(c.requests)-c.taken, err)
			c.taken = len(c.requests)
		} else { // abandoned
			c.release()
		}
	}
	q.queue, q.queued = queue{}, 0
}
