package actor

import (
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// loop owns the sequencer: it feeds it calls, outcomes and time, and hands its entries to the proposer.
func (a *Actor) loop() {
	defer close(a.gone)
	defer close(a.payloads)
	tick := time.NewTicker(a.config.OpenEvery)
	defer tick.Stop()
	stop, kill := a.stop, a.kill // each set to nil, which switches its arm off, once it was seen
	a.tryOpen()
	for stop != nil || !a.seq.idle() {
		select {
		case c := <-a.mailbox:
			a.seq.enqueue(c)
		case o := <-a.outcomes:
			a.settle(o)
		case <-tick.C:
			a.tick()
		case <-a.hints:
			a.tryOpen()
		case <-stop:
			stop = nil
		case <-kill:
			kill = nil
		}
		a.emptyMailbox()
		if kill == nil {
			a.seq.failQueued(errDraining)
		}
		a.proposeBatches()
	}
	a.ready.Store(false)
}

// emptyMailbox moves what gathered into the queue: it all goes into the next batch.
func (a *Actor) emptyMailbox() {
	for {
		select {
		case c := <-a.mailbox:
			a.seq.enqueue(c)
		default:
			return
		}
	}
}

// tick looks after everything that nobody calls for.
func (a *Actor) tick() {
	wall := a.config.Now()
	switch {
	case a.seq.state == open:
		if wall.Sub(a.summedAt) >= a.config.IdleSum {
			a.seq.sumDue = 0
		}
	case !a.replica.Leading() || wall.Sub(a.closedAt) > a.config.OpenWithin:
		a.seq.failQueued(errNotOwner)
	}
	a.tryOpen()
}

// tryOpen proposes an EpochOpen if this node may lead and none of ours is under way.
func (a *Actor) tryOpen() {
	if !a.seq.canOpen() || !a.replica.Leading() {
		return
	}
	wall := a.config.Now()
	now := limit.Time(wall.UnixMicro())
	if last := a.lastStamp(); last != 0 && now-last > maxStep && !a.config.AcceptStep {
		if a.config.Observer.TimeStep != nil {
			a.config.Observer.TimeStep(last, now)
		}
		return
	}
	a.anchor = wall
	a.payloads <- a.seq.openEpoch(now, wall)
}

func (a *Actor) lastStamp() (last limit.Time) {
	a.replica.View(func(state *shard.State) { last = state.Time() })
	return last
}

// now is the clock at the epoch's start plus the monotonic time since: steps of the clock do not reach it.
func (a *Actor) now(wall time.Time) limit.Time {
	return limit.Time(a.anchor.UnixMicro() + wall.Sub(a.anchor).Microseconds())
}

// proposeBatches hands on as many entries as may be under way.
func (a *Actor) proposeBatches() {
	for a.seq.hasWork() && a.seq.canPropose() {
		var payload []byte
		wall := a.config.Now()
		policies := a.config.Policies()
		if a.seq.sumDue <= 0 {
			a.summedAt = wall
		}
		a.replica.View(func(state *shard.State) { payload = a.seq.next(state, policies, a.now(wall), wall) })
		if payload != nil {
			a.payloads <- payload // has room for every entry that may be in flight
		}
		a.noteEpoch(wall)
	}
}

func (a *Actor) settle(o outcome) {
	wall := a.config.Now()
	f := a.seq.settle(o.Outcome, o.err, wall)
	a.noteEpoch(wall)
	if f.seq == 0 {
		return
	}
	if a.config.Observer.Batch != nil && f.bytes > 0 {
		a.config.Observer.Batch(len(f.results), f.effects, f.bytes)
	}
	if a.config.Observer.Commit != nil {
		a.config.Observer.Commit(wall.Sub(f.began))
	}
}

// noteEpoch publishes whether an epoch is open.
func (a *Actor) noteEpoch(wall time.Time) {
	isOpen := a.seq.state == open
	if isOpen == a.ready.Load() {
		return
	}
	a.ready.Store(isOpen)
	if !isOpen {
		a.closedAt = wall
		return
	}
	if a.config.Observer.Epoch != nil {
		a.config.Observer.Epoch(a.seq.epoch)
	}
}
