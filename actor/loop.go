package actor

import (
	"cmp"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// loop owns the sequencer: it passes calls, outcomes and time to it, and passes its entries to the proposer.
func (a *Actor) loop() {
	defer close(a.gone)
	defer close(a.payloads)
	tick := time.NewTimer(a.untilTick())
	defer tick.Stop()
	defer a.patience.Stop()
	stop, kill := a.stopping.Done(), a.killed.Done() // each is set to nil once seen, which disables its case
	a.tryOpen()
	for stop != nil || !a.seq.idle() || !a.intake.close() {
		select {
		case <-a.intake.wake:
		case <-a.patience.C:
			if a.holding {
				a.seq.pace.end()
			}
		case o := <-a.outcomes:
			a.emptyMailbox() // callers that came while it was under way count as queued
			a.settle(o)
		case <-tick.C:
			tick.Reset(a.untilTick())
			a.tick()
		case <-a.hints:
			a.tryOpen()
		case ask := <-a.asks:
			ask()
		case <-stop:
			stop = nil
		case <-kill:
			kill = nil
		}
		a.emptyMailbox()
		a.refuse(kill == nil)
		a.proposeBatches(stop == nil)
		a.intake.expect(a.seq.wants())
	}
	a.seq.close()
	a.noteEpoch(a.config.Now())
	if a.board != nil {
		a.board.Close(a.config.Now().UnixMicro()) // the memory is for other shards now
	}
}

// untilTick returns the time until the next tick. All shards of a node tick at the same instants, so an idle node wakes
// once for all of them; setting the clock only moves them.
func (a *Actor) untilTick() time.Duration {
	now := time.Now()
	return now.Truncate(a.config.OpenEvery).Add(a.config.OpenEvery).Sub(now) //mutant:each-idle-shard-wakes
}

// emptyMailbox moves the gathered calls into the queue, so that they can go into the next batch.
func (a *Actor) emptyMailbox() {
	a.taken = a.intake.take(a.taken[:0])
	for i, c := range a.taken {
		a.seq.enqueue(c)
		a.taken[i] = nil
	}
}

// refuse ends everything that cannot succeed here: the epoch of a node that no longer leads, in which nothing could be
// installed, and queued requests that will not be decided.
func (a *Actor) refuse(killed bool) {
	leads, stopped := a.replica.Leading(), a.config.Stopped()
	if !leads {
		a.noteFollowing(a.config.Now())
	}
	switch {
	case killed:
		a.seq.failQueued(errDraining)
	case a.seq.paused:
		a.seq.failQueued(errHandingOver)
	case !leads:
		a.seq.failQueued(errNotOwner)
	case stopped != nil: //mutant:stopped-shard-decides
		a.seq.failQueued(stopped)
	}
	a.noteQuiet()
}

// noteFollowing drops the state that only a leader has.
func (a *Actor) noteFollowing(wall time.Time) {
	if a.seq.state == open {
		a.seq.close()
		a.noteEpoch(wall)
	}
	a.closedAt, a.seq.whyClosed = wall, nil
}

// tick does the periodic work that no event triggers.
func (a *Actor) tick() {
	wall := a.config.Now()
	a.watchTime(wall)
	if a.board != nil {
		a.board.Advance(wall.UnixMicro()) // drops tables that were unused for an hour, even if this node owns nothing
	}
	switch {
	case a.seq.state == open:
		if wall.Sub(a.summedAt) >= a.config.IdleSum || a.sweepsOn() {
			a.seq.sumDue = 0
		}
	case wall.Sub(a.closedAt) > a.config.OpenWithin:
		a.seq.failQueued(cmp.Or(a.seq.whyClosed, errNoEpoch))
	}
	if a.seq.refusedFull && a.config.Observer.Full != nil {
		a.alarms.full.raise(wall, a.config.Observer.Full)
	}
	a.seq.refusedFull = false
	if refusal := a.seq.refusedCap; refusal != nil && a.config.Observer.Capped != nil {
		a.alarms.capped.raise(wall, func() { a.config.Observer.Capped(refusal) })
	}
	a.seq.refusedCap = nil
	if met := a.seq.fault; met != nil && a.config.Observer.Fault != nil {
		a.alarms.fault.raise(wall, func() { a.config.Observer.Fault(met) })
	}
	a.seq.fault = nil
	a.tryOpen()
}

// sweepsOn reports whether the next sum entry should go now because of its sweep: no request waits, and many records
// have ended. So an idle shard forgets 250,000 records in ten seconds, with one entry for each tick.
func (a *Actor) sweepsOn() (remain bool) {
	if a.seq.idle() {
		a.replica.View(func(state *shard.State) { remain = state.EndedRemain() })
	}
	return remain
}

// tryOpen proposes an EpochOpen if this node may lead, none of its own is under way, the time is known, and there are
// policies.
func (a *Actor) tryOpen() {
	if !a.seq.canOpen() || !a.replica.Leading() {
		return
	}
	wall := a.config.Now()
	ahead, measured := a.ahead(wall)
	if !measured {
		a.seq.whyClosed = errNoTime
		return
	}
	if !a.mayTakeUp() {
		return
	}
	reference := wall.Add(-ahead)
	now := a.moved(limit.Time(reference.UnixMicro()))
	if a.refusesStep(now) {
		return
	}
	a.clock.set(wall, reference)
	a.replica.View(func(state *shard.State) { a.continues = state.Epoch() == a.seq.epoch })
	a.payloads <- a.seq.openEpoch(now, wall)
}

// proposeBatches proposes the next entry, if none is under way. With ending, a batch does not wait for more requests.
func (a *Actor) proposeBatches(ending bool) {
	if a.config.Policies != nil {
		a.seq.rules.learn(a.config.Policies())
	}
	for a.seq.hasWork() && a.seq.canPropose() && (ending || !a.holdsBack()) {
		var payload []byte
		wall := a.config.Now()
		if a.seq.sumDue <= 0 {
			a.summedAt = wall
		}
		a.replica.View(func(state *shard.State) { payload = a.seq.next(state, a.moved(a.clock.now(wall)), wall) })
		if payload != nil {
			a.payloads <- payload // has room for the one entry in flight
			a.countTop(wall)
		}
		a.noteEpoch(wall)
	}
}

func (a *Actor) settle(o outcome) {
	wall := a.config.Now()
	f, installed := a.seq.settle(o.Outcome, o.err, wall)
	if f.seq == 0 && installed {
		a.openTop()
		a.takeUp()
	}
	a.noteEpoch(wall)
	if f.seq == 0 || !installed { //mutant:uncommitted-published
		return
	}
	if a.config.Observer.Batch != nil && f.bytes > 0 {
		a.config.Observer.Batch(len(f.results), f.effects, f.bytes)
	}
	if a.config.Observer.Commit != nil {
		a.config.Observer.Commit(wall.Sub(f.began))
	}
	if a.config.Observer.Happened != nil && len(f.happened) > 0 {
		a.config.Observer.Happened(f.happened)
	}
}

// noteEpoch publishes whether an epoch is open.
func (a *Actor) noteEpoch(wall time.Time) {
	var epoch uint64
	if a.seq.state == open {
		epoch = a.seq.epoch
	}
	if epoch == a.Epoch() {
		return
	}
	a.opened.Store(epoch)
	if epoch == 0 {
		a.closedAt = wall
	}
	if a.config.Observer.Epoch != nil {
		a.config.Observer.Epoch(epoch)
	}
}

// holdsBack reports whether the next batch waits for more requests; patience ends that wait.
func (a *Actor) holdsBack() bool {
	left := a.seq.hold(a.config.Now())
	a.holding = left > 0
	if a.holding {
		a.patience.Reset(left)
	}
	return a.holding
}
