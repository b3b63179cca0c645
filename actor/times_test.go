package actor

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
)

// opened describes when a replica last proposed an EpochOpen, for the judge.
type opened struct {
	at        int64      // world.now
	reference limit.Time // of the replica
	stood     int64      // how long its machine had stood still
	stamped   limit.Time // the newest entry after it
}

// stand stops a replica's machine, or lets it continue. While it stands still, neither its monotonic time nor its
// knowledge of the reference advances.
func (w *world) stand(r *replica) {
	if r.frozenAt == 0 {
		r.frozenAt, r.stoppedAt = int64(r.clock(w)), w.now
		return
	}
	r.stood += w.now - r.stoppedAt
	r.frozenAt = 0
}

// monotonic returns the monotonic time of the replica's machine.
func (r *replica) monotonic(w *world) time.Time {
	if r.frozenAt != 0 {
		return time.UnixMicro(r.stoppedAt - r.stood)
	}
	return time.UnixMicro(w.now - r.stood)
}

func (r *replica) reference(w *world) time.Time { return time.UnixMicro(int64(r.clock(w))) }

// watchTime is that of the Actor.
func (w *world) watchTime(r *replica) {
	wall := r.monotonic(w)
	switch {
	case r.seq.state != open:
	case !w.healing && w.random.IntN(4) == 0:
		w.tally.note("no reference")
		r.time.runFree(wall)
	case r.time.follow(wall, r.reference(w)) > behindMost:
		w.tally.note("shard time fell behind")
		r.seq.close()
	}
}

// openEpoch is that of the Actor, as far as time is concerned.
func (w *world) openEpoch(r *replica) []byte {
	r.time.set(r.monotonic(w), r.reference(w))
	r.opened = opened{at: w.now, reference: r.clock(w), stood: r.stoodUntil(w)}
	return r.seq.openEpoch(r.clock(w), w.wall())
}

func (r *replica) stoodUntil(w *world) int64 {
	if r.frozenAt != 0 {
		return r.stood + w.now - r.stoppedAt
	}
	return r.stood
}

// stampedAt checks the time of an entry against the promise: since its epoch began, shard time has advanced by the time
// that the machine was running, give or take 500 ppm, whatever the reference did; or it stands still and advances by
// one microsecond.
func (o *opened) stampedAt(w *world, r *replica, at limit.Time) error {
	ran := w.now - o.at - (r.stoodUntil(w) - o.stood)
	slack := ran/2000 + 1
	earliest, latest := o.reference+limit.Time(ran-slack), o.reference+limit.Time(ran+slack)
	still := at == o.stamped+1
	o.stamped = at
	if !still && (at < earliest || at > latest) {
		return fmt.Errorf("%v stamps an entry %d, %d us after it opened at %d: not within 500 ppm",
			r, at, ran, o.reference)
	}
	return nil
}
