package actor

import "github.com/stint-io/stint/shard"

// beginHandover makes the leader begin to give the shard away.
func (w *world) beginHandover() {
	if w.leader < 0 {
		return
	}
	r := w.replicas[w.leader]
	if r.up && r.leads && !r.seq.paused {
		w.tellf("%v begins to hand over, with %d under way", r, len(r.waiting))
		if len(r.waiting) > 0 {
			w.tally.note("handover begun with entries under way")
		}
		r.seq.pause()
		r.handing = true
	}
}

// rest does the work of the Actor's loop during a handover, and that of its caller when nothing is under way.
func (w *world) rest(r *replica) error {
	if !r.seq.paused {
		return nil
	}
	r.seq.failQueued(errHandingOver)
	if !r.seq.quiet() {
		if !w.healing && w.random.IntN(30) > 0 {
			return nil
		}
		w.tally.note("a handover out of patience")
	} else if err := w.transfer(r); err != nil {
		return err
	}
	w.tellf("%v ends its handover", r)
	r.seq.resume()
	r.handing = false
	return nil
}

// transfer makes another replica the leader, or fails.
func (w *world) transfer(r *replica) error {
	to := w.replicas[w.random.IntN(len(w.replicas))]
	if w.leader != r.number || to == r || !to.up {
		w.tally.note("a transfer that failed")
		return nil
	}
	w.tally.note("handed over")
	w.transferring = true
	defer func() { w.transferring = false }()
	return w.elect(to.number)
}

// blame judges an unknown outcome: a handover is no reason for one.
func (c cover) blame(err *shard.Error) string {
	if c.batch != nil && c.batch.transferred && err.MaybeApplied() {
		return "nobody knows what became of it, because ownership was handed over while its entry was under way"
	}
	return ""
}
