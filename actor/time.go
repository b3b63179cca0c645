package actor

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
)

// What is told of clocks and done about them (SEMANTICS R18).
const (
	offMost    = 200 * time.Millisecond // this machine's clock from the reference: more is told
	aheadMost  = 400 * time.Millisecond // ahead of the reference: another node is to own the shard
	behindMost = 400 * time.Millisecond // shard time behind the reference: more ends the epoch
	wrongMost  = 10 * time.Second       // this machine's clock from the reference: more stops the node
	frozenMost = 10 * time.Second       // shard time stands still: more is told

	handOverEvery = 5 * time.Second // how often somebody is asked to hand the shard over
)

// ahead is how far this machine's clock is ahead of the reference; false: nobody knows.
func (a *Actor) ahead(wall time.Time) (ahead time.Duration, ok bool) {
	if a.config.Reference == nil {
		return 0, true
	}
	if a.steps.recent(wall) {
		return 0, false
	}
	return a.config.Reference()
}

// watchTime compares this machine's clock and shard time with the reference. Shard time that is far behind it ends the
// epoch, and the next one is anchored anew; what queues waits for that. When it stands still, somebody is told.
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
	behind := time.Duration(a.seq.last-a.clock.now(wall)) * time.Microsecond
	if behind > frozenMost && a.config.Observer.Frozen != nil {
		a.alarms.frozen.raise(wall, func() { a.config.Observer.Frozen(behind) })
	}
}

// watchClock tells of a clock that is wrong.
func (a *Actor) watchClock(wall time.Time, ahead time.Duration) {
	o := &a.config.Observer
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

// refusesStep reports whether an only voter's clock is too far past the last stamp.
func (a *Actor) refusesStep(now limit.Time) bool {
	if a.config.Reference != nil || a.config.AcceptStep {
		return false
	}
	last := a.lastStamp()
	if last == 0 || now-last <= maxStep {
		return false
	}
	if a.config.Observer.TimeStep != nil {
		a.config.Observer.TimeStep(last, now)
	}
	return true
}
