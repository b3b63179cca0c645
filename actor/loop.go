package actor

import (
	"cmp"
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
	a.seq.close()
	a.noteEpoch(a.config.Now())
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
		a.watchTime(wall)
	case !a.replica.Leading():
		a.closedAt, a.seq.whyClosed = wall, nil
		a.seq.failQueued(errNotOwner)
	case wall.Sub(a.closedAt) > a.config.OpenWithin:
		a.seq.failQueued(cmp.Or(a.seq.whyClosed, errNoEpoch))
	}
	if a.seq.refusedFull && a.config.Observer.Full != nil {
		a.full.raise(wall, a.config.Observer.Full)
	}
	a.seq.refusedFull = false
	a.tryOpen()
}

// watchTime compares shard time with the clock. When it is behind, the epoch ends, and the next one is anchored anew;
// what queues waits for that. When it stands still, somebody is told (SEMANTICS R18).
func (a *Actor) watchTime(wall time.Time) {
	now := a.now(wall)
	if limit.Time(wall.UnixMicro())-now > behindMost {
		a.seq.close()
		a.noteEpoch(wall)
		return
	}
	if behind := a.seq.last - now; behind > frozenMost && a.config.Observer.Frozen != nil {
		a.frozen.raise(wall, func() { a.config.Observer.Frozen(time.Duration(behind) * time.Microsecond) })
	}
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

// now is the clock at the epoch's start plus the monotonic time since. It does not see the clock step, neither back nor
// forward, and it misses the time for which the machine was suspended: watchTime sees to the latter two.
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
	f, installed := a.seq.settle(o.Outcome, o.err, wall)
	a.noteEpoch(wall)
	if f.seq == 0 || !installed {
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
	epoch := a.seq.epoch
	if !isOpen {
		a.closedAt, epoch = wall, 0
	}
	if a.config.Observer.Epoch != nil {
		a.config.Observer.Epoch(epoch)
	}
}
