package actor

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
)

// opened is when a replica last proposed an EpochOpen, as the judge keeps it.
type opened struct {
	at        int64      // world.now
	reference limit.Time // of the replica
	stood     int64      // how long its machine had stood still
	stamped   limit.Time // the newest entry after it
}

// stand stops a replica's machine, or lets it go on: neither monotonic time nor what it knows of the reference moves
// meanwhile.
func (w *world) stand(r *replica) {
	if r.frozenAt == 0 {
		r.frozenAt, r.stoppedAt = int64(r.clock(w)), w.now
		return
	}
	r.stood += w.now - r.stoppedAt
	r.frozenAt = 0
}

// monotonic is the replica's machine's monotonic time.
func (r *replica) monotonic(w *world) time.Time {
	if r.frozenAt != 0 {
		return time.UnixMicro(r.stoppedAt - r.stood)
	}
	return time.UnixMicro(w.now - r.stood)
}

func (r *replica) reference(w *world) time.Time { return time.UnixMicro(int64(r.clock(w))) }

// watchTime is the Actor's.
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

// openEpoch is the Actor's, as far as time goes.
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

// stamped holds the time of an entry to what is promised: since its epoch's anchor it has passed by what the machine
// was running, give or take 500 ppm, whatever the reference did; or it stands still, one microsecond on.
func (o *opened) stampedAt(w *world, r *replica, at limit.Time) error {
	ran := w.now - o.at - (r.stoodUntil(w) - o.stood)
	slack := ran/2000 + 1
	earliest, latest := o.reference+limit.Time(ran-slack), o.reference+limit.Time(ran+slack)
	still := at == o.stamped+1
	o.stamped = at
	if !still && (at < earliest || at > latest) {
		return fmt.Errorf("%v stamps an entry %d, %d us after it opened at %d: not within 500 ppm", r, at, ran, o.reference)
	}
	return nil
}
