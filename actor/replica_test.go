package actor

import (
	"bytes"
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// replica is one process with its copy of the shard, and the sequencer with which it would own the shard.
type replica struct {
	number  int
	up      bool
	leads   bool // it believes so; the truth is world.leader
	seq     *sequencer
	room    *admission
	state   *shard.State
	applied int         // entries of the log installed
	waiting []*proposal // proposed and not yet settled, oldest first
	asked   []*asked    // calls it has not answered
	handing bool        // it hands the shard over
	knows   uint64      // version of the policies that its process knows; 0: none

	time      clock
	opened    opened
	ahead     int64 // microseconds by which its reference is wrong
	frozenAt  int64 // the value of its reference while its machine stands still; 0: it runs
	stoppedAt int64 // world.now when it began to stand still
	stood     int64 // microseconds for which it has stood still

	picture []byte // its newest snapshot
	taken   int    // entries of the log that are in it
}

func (w *world) newReplica(number int) *replica {
	r := &replica{number: number}
	r.ahead = w.random.Int64N(400_000) - 200_000
	r.start(w, shard.NewState(theShard), 0)
	return r
}

func (r *replica) String() string { return fmt.Sprint("replica ", r.number) }

func (r *replica) start(w *world, state *shard.State, applied int) {
	r.up, r.leads, r.state, r.applied = true, false, state, applied
	r.seq, r.waiting, r.asked = newSequencer(theShard, w.shape.config), nil, nil
	r.room = &admission{most: load{1 << 40, 1 << 40}}
	r.handing, r.knows = false, w.random.Uint64N(w.newest+1)
}

func (r *replica) clock(w *world) limit.Time {
	if r.frozenAt != 0 {
		return limit.Time(r.frozenAt)
	}
	return limit.Time(w.now + r.ahead)
}

// turn does the work of one turn of the Actor's loop: open an epoch, propose the gathered requests, refuse those that
// cannot be decided.
func (w *world) turn(r *replica) error {
	if !r.up {
		return nil
	}
	w.watchTime(r)
	r.seq.rules.learn(r.known())
	if err := w.rest(r); err != nil {
		return err
	}
	if r.leads && r.seq.canOpen() && w.mayTakeUp(r) {
		w.tellf("%v opens an epoch", r)
		if err := w.propose(r, w.openEpoch(r)); err != nil {
			return err
		}
	}
	if r.seq.state == open && !w.healing && w.random.IntN(40) == 0 {
		r.seq.sumDue = 0
	}
	for r.seq.hasWork() && r.seq.canPropose() {
		if left := r.seq.hold(w.wall()); left > 0 && !w.healing {
			w.tally.note("waited for callers")
			if w.random.IntN(2) == 0 {
				r.seq.pace.end()
			}
			break
		}
		if r.state.Epoch() != r.seq.epoch {
			w.tally.note("foreign epoch while open")
		}
		if payload := r.seq.next(r.state, r.time.now(r.monotonic(w)), w.wall()); payload != nil {
			if err := w.propose(r, payload); err != nil {
				return err
			}
		}
	}
	if r.seq.state != open && !r.leads && w.random.IntN(4) == 0 {
		r.seq.failQueued(errNotOwner)
	}
	return w.collect(r)
}

// propose turns the newest flight of a replica's sequencer into a proposal.
func (w *world) propose(r *replica, payload []byte) error {
	f := r.seq.inFlight
	p := &proposal{payload: payload, epoch: f.epoch, seq: f.seq}
	if bytes.Contains(payload, []byte("policies:")) {
		p.adopts = r.seq.rules.adopted.Version
	}
	if r.handing {
		return fmt.Errorf("%v proposes %v while it hands over", r, p)
	}
	if p.seq > 0 {
		if err := r.opened.stampedAt(w, r, r.seq.last); err != nil {
			return err
		}
	}
	if len(f.parts) > 0 {
		p.batch = w.judge.proposed(w, r, f)
	}
	r.waiting = append(r.waiting, p)
	switch {
	case w.leader >= 0 && w.replicas[w.leader] == r:
	case w.random.IntN(2) == 0:
		w.tally.note("refused by a follower")
		w.refuse(r, p, errNotOwner)
	default:
		w.lose(r, p)
	}
	return nil
}

// hear installs a few entries from the log, and settles the proposals with outcomes that this replica has learned.
func (w *world) hear(r *replica) error {
	for range 1 + w.random.IntN(4) {
		if err := w.install(r); err != nil {
			return err
		}
	}
	return w.settle(r)
}

func (w *world) hearAll(r *replica) error {
	for r.up && r.applied < len(w.log.entries) {
		if err := w.install(r); err != nil {
			return err
		}
	}
	return w.settle(r)
}

// install installs the next entry of the log on a replica. The result must be the same as everywhere else.
func (w *world) install(r *replica) error {
	if !r.up || r.applied == len(w.log.entries) {
		return nil
	}
	e := &w.log.entries[r.applied]
	outcome, err := r.state.Install(e.payload, e.index, e.term)
	if err != nil {
		return fmt.Errorf("%v halts: %w", r, err)
	}
	if outcome != e.outcome {
		return fmt.Errorf("entry %d is %+v at %v, and %+v elsewhere", e.index, outcome, r, e.outcome)
	}
	if sum := r.state.Sum(); sum != e.sum {
		return fmt.Errorf("%v has fingerprint %016x after entry %d, others have %016x", r, sum, e.index, e.sum)
	}
	for _, p := range r.waiting {
		if p.fate == logged && p.at == r.applied {
			p.fate, p.outcome = decided, outcome
		}
	}
	r.applied++
	return nil
}

// settle tells a sequencer the outcomes of its proposals, oldest first.
func (w *world) settle(r *replica) error {
	for r.up && len(r.waiting) > 0 && r.waiting[0].fate == decided {
		p := r.waiting[0]
		r.waiting = r.waiting[1:]
		if f, installed := r.seq.settle(p.outcome, p.err, w.wall()); f.seq == 0 && installed {
			r.opened.stamped = p.outcome.Time
			if err := w.takeUp(r); err != nil {
				return err
			}
		}
		if w.story != nil {
			w.tellf("%v settles %v: %+v, error %v", r, p, p.outcome, p.err)
		}
		if p.err == errNotOwner {
			r.leads = r.leads && w.leader == r.number
		}
	}
	return w.collect(r)
}

// collect delivers every answer that left the replica to its client.
func (w *world) collect(r *replica) error {
	if !r.up {
		return nil
	}
	left := r.asked[:0]
	for _, a := range r.asked {
		switch {
		case a.gone:
		case len(a.call.done) > 0:
			<-a.call.done
			if err := w.learn(a, a.call.results); err != nil {
				return err
			}
		default:
			left = append(left, a)
		}
	}
	clear(r.asked[len(left):])
	r.asked = left
	if held := r.room.held(); r.seq.idle() && held != (load{}) {
		return fmt.Errorf("nothing is left at %v, and its room is taken by %+v", r, held)
	}
	return nil
}

func (w *world) takePicture(r *replica) {
	if !r.up {
		return
	}
	var picture bytes.Buffer
	if _, err := r.state.Snapshot().WriteTo(&picture); err != nil {
		panic(err)
	}
	r.picture, r.taken = picture.Bytes(), r.applied
}

// crash ends a process between two of its steps. Its clients lose their connections and know no outcome.
func (w *world) crash(r *replica) error {
	if !r.up {
		return nil
	}
	stage := "crash with nothing proposed"
	for _, p := range r.waiting {
		if p.fate == underWay && stage == "crash with nothing proposed" {
			stage = "crash after propose"
		}
		if p.fate == logged || p.fate == decided && p.err == nil {
			stage = "crash after commit before answer"
		}
	}
	w.tally.note(stage)
	w.tellf("%v: %s", r, stage)
	if err := w.abdicate(r); err != nil {
		return err
	}
	r.up = false
	for _, a := range r.asked {
		if !a.gone {
			if err := w.learn(a, shard.RefuseAll(len(a.call.requests), errUnknown)); err != nil {
				return err
			}
		}
	}
	return nil
}

// restart starts the process again from its own snapshot, from another replica's, or from nothing, and the log.
func (w *world) restart(r *replica) error {
	if r.up {
		return nil
	}
	from := r
	if w.random.IntN(4) == 0 {
		from = w.replicas[w.random.IntN(len(w.replicas))]
	}
	if from.picture == nil || w.random.IntN(10) == 0 {
		w.tally.note("restart from an empty disk")
		w.tellf("%v starts on an empty disk", r)
		r.start(w, shard.NewState(theShard), 0)
		return nil
	}
	w.tally.note("restart from snapshot")
	w.tellf("%v starts on the snapshot of %v after %d entries", r, from, from.taken)
	state, err := shard.Restore(theShard, bytes.NewReader(from.picture))
	if err != nil {
		return err
	}
	if from.taken > 0 && state.Sum() != w.log.entries[from.taken-1].sum {
		return fmt.Errorf("the snapshot of %v after %d entries has another fingerprint than the log", from, from.taken)
	}
	r.picture, r.taken = from.picture, from.taken
	r.start(w, state, from.taken)
	return nil
}
