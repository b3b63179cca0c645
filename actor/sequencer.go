package actor

import (
	"errors"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// sequencer is the logic of an actor: calls in, entries out, outcomes in, answers out. It has no goroutine and no
// channel of its own to wait on, reads no clock, and is owned by one goroutine, the Actor's loop or a test.
type sequencer struct {
	id       shard.ID
	config   Config
	state    epochState
	epoch    uint64     // of the epoch that is open
	seq      uint64     // of the newest entry proposed in it
	last     limit.Time // stamp of the newest entry proposed; shard time never falls below it
	queue    queue      // waiting
	queued   int        // requests in it
	dueBy    time.Time  // no deadline of a call in it is sooner; zero: none has one
	inFlight []flight   // proposed, oldest first
	overlay  overlay
	rules    rules
	paused   bool          // for a handover: nothing is proposed
	sumDue   int           // entries until the fingerprint is logged
	commit   time.Duration // a recent commit took about this long
	pace     pace

	whyClosed   *shard.Error // the newest EpochOpen was refused for this; nil: none was, or it says nothing
	refusedFull bool         // requests were refused for the memory cap since the loop looked last
}

// epochState says whether this node may decide.
type epochState uint8

const (
	closed  epochState = iota // no epoch is open; proposals of the last one may still be under way
	opening                   // our EpochOpen is under way
	open
)

// flight is one proposal under way and the answers that wait for it.
type flight struct {
	epoch   uint64
	seq     uint64 // 0: an EpochOpen
	parts   []part
	results []shard.Result // of the parts, one after another
	began   time.Time
	bytes   int
	effects int
	adopts  uint64 // the version of the policies that it adopts; 0: it does not
}

// part is a run of one call's requests that went into a batch.
type part struct {
	call     *call
	from, to int
}

func newSequencer(id shard.ID, config Config) *sequencer {
	return &sequencer{id: id, config: config, overlay: newOverlay(), sumDue: config.SumEvery,
		pace: pace{others: config.Reference != nil}}
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

// hold is how much longer the next batch waits for callers who were just answered; 0 or less: it goes.
func (q *sequencer) hold(wall time.Time) time.Duration {
	if q.queued == 0 || q.sumDue <= 0 || q.rules.due() {
		return 0
	}
	due := q.dueBy
	if !due.IsZero() {
		due = due.Add(-q.margin())
	}
	return q.pace.left(min(q.queued, q.config.MaxBatch), due, wall)
}

// margin is how long before its deadline a call is proposed at the latest, if it is for us: a commit, and as much again.
func (q *sequencer) margin() time.Duration { return 2 * q.commit }

// wants is for what the loop is to be woken: so many more requests, or a call whose deadline is before a time.
func (q *sequencer) wants() (more int, dueBefore time.Time) {
	switch {
	case q.state != open || q.paused:
		return 1, time.Time{}
	case len(q.inFlight) >= q.config.MaxInFlight:
		return never, time.Time{} // its outcome wakes the loop
	case q.queued > 0 && q.pace.bound > 0:
		return max(1, q.pace.target-q.queued), q.pace.until.Add(q.margin())
	}
	return 1, time.Time{}
}

// canOpen reports whether an EpochOpen may be proposed: everything older has come back.
func (q *sequencer) canOpen() bool { return q.state == closed && len(q.inFlight) == 0 && !q.paused }

// idle reports whether nothing waits and nothing is under way.
func (q *sequencer) idle() bool { return q.queue.len() == 0 && len(q.inFlight) == 0 }

// hasWork reports whether next would have something to propose.
func (q *sequencer) hasWork() bool { return q.queue.len() > 0 || q.sumDue <= 0 || q.rules.due() }

// openEpoch makes the EpochOpen.
func (q *sequencer) openEpoch(now limit.Time, wall time.Time) []byte {
	q.state = opening
	q.overlay = newOverlay()
	q.inFlight = append(q.inFlight, flight{began: wall})
	return shard.EncodeEpochOpen(q.id, now)
}

// canPropose reports whether the next batch, or a fingerprint, may go out.
func (q *sequencer) canPropose() bool {
	return q.state == open && !q.paused && len(q.inFlight) < q.config.MaxInFlight && (q.sumDue > 0 || len(q.inFlight) == 0)
}

// stamp is the place and time of the next entry (SEMANTICS R18): time stands still where the clock fell behind.
func (q *sequencer) stamp(now limit.Time) shard.Stamp {
	return shard.Stamp{
		Position: shard.Position{Shard: q.id, Epoch: q.epoch, Seq: q.seq + 1},
		Now:      max(q.last+1, now),
	}
}

// next makes the next entry out of whatever queues, or nil when nothing does. state stands still during the call.
func (q *sequencer) next(state *shard.State, now limit.Time, wall time.Time) []byte {
	if state.Epoch() != q.epoch { // somebody else opened: nothing of ours can be installed any more
		q.close()
		return nil
	}
	if q.sumDue <= 0 {
		return q.nextSum(state, now, wall)
	}
	if q.rules.due() {
		return q.nextAdoption(now, wall)
	}
	requests := q.gather(wall)
	if len(requests) == 0 {
		return nil
	}
	at := q.stamp(now)
	seen := view{&q.overlay, state, q.config.MaxBytes}
	results, puts := shard.Evaluate(seen, q.rules.adopted.Set, requests, at)
	q.refusedFull = q.refusedFull || seen.Full() && slices.ContainsFunc(results, refusedFull)
	payload := shard.EncodeBatch(at, puts)
	q.overlay.write(at.Seq, puts)
	q.propose(at, flight{parts: q.take(len(results)), results: results, began: wall,
		bytes: len(payload), effects: len(puts)})
	q.sumDue--
	return payload
}

func refusedFull(r shard.Result) bool { return r.Err != nil && r.Err.Code == shard.MemoryFull }

func (q *sequencer) nextSum(state *shard.State, now limit.Time, wall time.Time) []byte {
	at := q.stamp(now)
	q.sumDue = q.config.SumEvery
	q.overlay.write(at.Seq, nil)
	q.propose(at, flight{began: wall})
	return shard.EncodeSumCheck(at, state.Sum())
}

func (q *sequencer) propose(at shard.Stamp, f flight) {
	q.seq, q.last = at.Seq, at.Now
	f.epoch, f.seq = at.Epoch, at.Seq
	q.inFlight = append(q.inFlight, f)
}

// gather lists the requests that go next, as many as a batch may have. Those whose caller has gone, or will have before
// a commit can be there, are not worth deciding (SEMANTICS R20).
func (q *sequencer) gather(wall time.Time) (requests []shard.Request) {
	requests = make([]shard.Request, 0, min(q.queued, q.config.MaxBatch))
	for at := range q.queue {
		requests = q.gatherLane(lane(at), requests, wall)
	}
	return requests
}

func (q *sequencer) gatherLane(at lane, requests []shard.Request, wall time.Time) []shard.Request {
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
	copy(calls[dropped:seen], kept) // the few kept move, not the many behind them: an overloaded queue is long
	q.queue[at] = calls[dropped:]
	return requests
}

// take removes the n requests that went first from the queue: those that were decided.
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

func (q *sequencer) start(c *call, wall time.Time) bool {
	if c.fate.Load() == started {
		return true
	}
	if !c.fate.CompareAndSwap(queued, started) {
		return false
	}
	if !c.deadline.IsZero() && c.deadline.Sub(wall) < q.commit {
		q.commit -= q.commit / 8 // nothing is measured while all are refused: a stall must not be held against them for ever
		c.fail(0, len(c.requests), errTooShort)
		return false
	}
	return true
}

// settle takes the outcome of the oldest proposal under way, and answers what waited for it. It reports whether the
// proposal was installed.
func (q *sequencer) settle(o shard.Outcome, err error, wall time.Time) (f flight, installed bool) {
	f = q.inFlight[0]
	q.inFlight = q.inFlight[1:]
	if f.seq == 0 {
		return f, q.settleOpen(o, err)
	}
	if failure := f.failure(o, err); failure != nil {
		q.close()
		f.fail(failure)
		return f, false
	}
	if q.state == open {
		q.overlay.installed(f.seq)
		q.commit = (q.commit*7 + wall.Sub(f.began)) / 8
		if len(f.results) > 0 {
			q.pace.committed(wall.Sub(f.began), q.commit, len(f.results), q.queued, wall)
		}
	}
	f.openGate()
	return f, true
}

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

// refusal is why an EpochOpen is certainly in no log; nil when that is not certain. What queued behind it was never
// proposed: an unknown outcome of the EpochOpen is not theirs.
func refusal(err error) *shard.Error {
	var known *shard.Error
	if errors.As(err, &known) && !known.MaybeApplied() {
		return known
	}
	return nil
}

// close ends the epoch: nothing more is proposed in it, and the overlay is void.
func (q *sequencer) close() {
	q.state = closed
	q.overlay = newOverlay()
}

// pause ends proposing until resume, for a handover.
func (q *sequencer) pause() { q.paused = true }

// quiet reports whether everything has come back since pause; then the epoch has ended.
func (q *sequencer) quiet() bool {
	if !q.paused || len(q.inFlight) > 0 {
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

// failQueued answers everything that was never proposed.
func (q *sequencer) failQueued(err *shard.Error) {
	q.queue.each(func(c *call) {
		if c.fate.CompareAndSwap(queued, started) || c.fate.Load() == started {
			c.fail(c.taken, len(c.requests)-c.taken, err)
			c.taken = len(c.requests)
		} else { // abandoned
			c.release()
		}
	})
	q.queue, q.queued = queue{}, 0
}

// failure says what an outcome means for those who wait; nil when exactly the proposed entry was installed.
func (f *flight) failure(o shard.Outcome, err error) *shard.Error {
	var known *shard.Error
	switch {
	case errors.As(err, &known):
		return known
	case err != nil:
		return errUnknown
	case o.Dropped != shard.NotDropped: // it is in the log, and every replica passes it over
		return errDropped
	case o.Epoch != f.epoch || o.Seq != f.seq:
		return errUnknown
	}
	return nil
}

func (f *flight) openGate() {
	results := f.results
	for _, p := range f.parts {
		n := p.to - p.from
		p.call.answer(p.from, results[:n:n])
		results = results[n:]
	}
}

func (f *flight) fail(err *shard.Error) {
	for _, p := range f.parts {
		p.call.fail(p.from, p.to-p.from, err)
	}
}
