package actor

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Thresholds and intervals of the reports on clocks and of what is done about them (R18).
const (
	offMost = 200 * time.Millisecond // this machine's clock off the reference: more is reported
	// This machine's clock ahead of the reference: at this, another node should own the shard.
	aheadMost  = 400 * time.Millisecond
	behindMost = 400 * time.Millisecond // shard time behind the reference: more ends the epoch
	wrongMost  = 10 * time.Second       // this machine's clock off the reference: more should stop the node
	frozenMost = 10 * time.Second       // shard time stands still: more is reported

	clockSetEvery = 10 * time.Minute // interval between reports that the clock was set
	handOverEvery = 5 * time.Second  // interval between requests to hand the shard over
)

// maxStep is how far shard time may step forward after a stop without the operator's consent (R18).
const maxStep = limit.Time(24 * time.Hour / time.Microsecond)

// ahead returns how far this machine's clock is ahead of the reference; ok is false if that is unknown.
func (a *Actor) ahead(wall time.Time) (ahead time.Duration, ok bool) {
	if a.config.Reference == nil {
		slept := time.Duration(0)
		if a.config.Suspended != nil {
			slept = a.config.Suspended()
		}
		return wall.Round(0).Sub(a.own.at(wall, slept)), true
	}
	if a.steps.recent(wall) {
		return 0, false
	}
	return a.config.Reference() //mutant:epoch-without-clocks
}

// watchTime compares this machine's clock and shard time with the reference. If shard time is far behind, the epoch
// ends and the next one starts at the reference again; queued requests wait for that. If shard time stands still, that
// is reported.
func (a *Actor) watchTime(wall time.Time) {
	ahead, ok := a.ahead(wall)
	if ok {
		a.watchClock(wall, ahead)
	}
	switch {
	case a.seq.state != open:
		return
	case !ok:
		a.clock.runFree(wall)
	case a.clock.follow(wall, wall.Add(-ahead)) > behindMost:
		a.seq.close()
		a.noteEpoch(wall)
		return
	}
	behind := time.Duration(a.seq.last-a.moved(a.clock.now(wall))) * time.Microsecond
	if behind > frozenMost && a.config.Observer.Frozen != nil {
		a.alarms.frozen.raise(wall, func() { a.config.Observer.Frozen(behind) })
	}
}

// watchClock reports a clock that is wrong or was set.
func (a *Actor) watchClock(wall time.Time, ahead time.Duration) {
	o := &a.config.Observer
	if a.config.Reference == nil {
		if ahead.Abs() > offMost && o.ClockSet != nil {
			a.alarms.set.raiseEvery(clockSetEvery, wall, func() { o.ClockSet(ahead) })
		}
		return
	}
	if ahead.Abs() > offMost && o.ClockOff != nil {
		a.alarms.off.raise(wall, func() { o.ClockOff(ahead) })
	}
	if ahead.Abs() > wrongMost && o.ClockWrong != nil {
		a.alarms.wrong.raise(wall, func() { o.ClockWrong(ahead) })
	}
	if ahead >= aheadMost && a.seq.state == open && !a.seq.paused && o.HandOver != nil {
		a.alarms.handOver.raiseEvery(handOverEvery, wall, func() {
			o.HandOver(fmt.Sprintf("this machine's clock is %v ahead of most voters'", ahead.Round(time.Millisecond)))
		})
	}
}

// moved adds a test's offset to shard time.
func (a *Actor) moved(now limit.Time) limit.Time {
	if a.config.Ahead == nil {
		return now
	}
	return now + limit.Time(a.config.Ahead()/time.Microsecond)
}

// refusesStep reports whether an only voter's clock is too far past the last stamp.
func (a *Actor) refusesStep(now limit.Time) bool {
	if a.config.Reference != nil || a.config.AcceptStep {
		return false
	}
	var last limit.Time
	a.replica.View(func(state *shard.State) { last = state.Time() })
	if last == 0 || now-last <= maxStep {
		return false
	}
	if a.config.Observer.TimeStep != nil {
		a.config.Observer.TimeStep(last, now)
	}
	return true
}
