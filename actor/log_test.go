package actor

import (
	"fmt"

	"github.com/stint-io/stint/shard"
)

// log is what a majority has on disk, in its final order, together with the proposals that may still enter it.
type log struct {
	entries  []entry
	index    uint64 // of the newest entry, including entries of no shard
	term     uint64
	openTerm uint64       // term of the newest EpochOpen
	adopted  uint64       // version of the policies
	state    *shard.State // a replica that installs at once: the state that every replica will reach
	late     []*proposal  // reported as unknown and not in the log: each may still enter it
}

type entry struct {
	payload     []byte
	index, term uint64
	outcome     shard.Outcome // by log.state
	sum         uint64        // of log.state after it
	from        *proposal
}

// proposal is an entry on its way into the log.
type proposal struct {
	payload    []byte
	epoch, seq uint64 // seq 0: an EpochOpen
	batch      *batch // nil: an EpochOpen, a sum entry or an adoption
	adopts     uint64 // version of the policies; 0: none
	fate       fate
	at         int // in log.entries, once it is logged
	outcome    shard.Outcome
	err        error
}

type fate uint8

const (
	underWay fate = iota
	logged        // its owner learns of it when it has installed it
	decided       // outcome or err is ready for the sequencer
)

func (p *proposal) String() string {
	if p.seq == 0 {
		return "EpochOpen"
	}
	return fmt.Sprintf("entry %d/%d", p.epoch, p.seq)
}

func newLog() log { return log{index: 4, term: 1, state: shard.NewState(theShard)} }

// appendEntry gives an entry the next place in the log.
func (w *world) appendEntry(p *proposal) error {
	l := &w.log
	l.index++
	before := l.state.Time()
	outcome, err := l.state.Install(p.payload, l.index, l.term)
	if err != nil {
		return fmt.Errorf("all replicas halt at %v: %w", p, err)
	}
	if outcome.Dropped == shard.NotDropped {
		if p.seq > 0 && outcome.Time <= before {
			return fmt.Errorf("%v leaves shard time at %d", p, before)
		}
		if err := l.adoptedMore(p); err != nil {
			return err
		}
	}
	l.entries = append(l.entries, entry{payload: p.payload, index: l.index, term: l.term, outcome: outcome,
		sum: l.state.Sum(), from: p})
	if w.story != nil {
		w.tellf("log: index %d, term %d: %v: %v", l.index, l.term, p, outcome.Dropped)
	}
	switch {
	case outcome.Dropped != shard.NotDropped:
		w.tally.note("dropped: " + outcome.Dropped.String())
	case p.seq == 0:
		l.openTerm = l.term
	case p.adopts != 0:
		w.tally.note("policies adopted")
	case p.batch == nil:
		w.tally.note("sum logged")
	default:
		return w.judge.committed(w, p.batch)
	}
	return nil
}

// commitOldest commits the oldest proposal of the leader.
func (w *world) commitOldest() error {
	if p := w.oldest(); p != nil {
		return w.commit(p)
	}
	return nil
}

func (w *world) oldest() *proposal {
	if w.leader < 0 {
		return nil
	}
	for _, p := range w.replicas[w.leader].waiting {
		if p.fate == underWay {
			return p
		}
	}
	return nil
}

func (w *world) commit(p *proposal) error {
	p.fate, p.at = logged, len(w.log.entries)
	return w.appendEntry(p)
}

// refuse reports that an entry is in no log.
func (w *world) refuse(r *replica, p *proposal, err error) {
	w.tellf("log: %v of %v is refused: %v", p, r, err)
	p.fate, p.err = decided, err
}

// lose reports an unknown outcome, which is the truth: the entry may enter the log late, or never.
func (w *world) lose(r *replica, p *proposal) {
	w.tally.note("lost as unknown")
	w.tellf("log: %v of %v is lost", p, r)
	if p.batch != nil {
		p.batch.transferred = w.transferring
	}
	p.fate, p.err = decided, errUnknown
	w.log.late = append(w.log.late, p)
}

// elect makes a replica the leader of a new term.
func (w *world) elect(n int) error {
	if !w.replicas[n].up {
		return nil
	}
	if w.leader >= 0 {
		old := w.replicas[w.leader]
		if err := w.abdicate(old); err != nil {
			return err
		}
		old.leads = w.random.IntN(2) == 0
		if old.number != n {
			w.tally.note("moved")
		}
	}
	w.log.term++
	w.log.index++ // raft's own entry
	w.leader = n
	w.replicas[n].leads = true
	w.tellf("%v leads term %d", w.replicas[n], w.log.term)
	return nil
}

// abdicate ends a leadership. Of the proposals under way, the first ones may have reached the majority; the outcome of
// the others is unknown. One of them may even be taken for an entry of the next leader (hashicorp/raft issue 695), on
// this replica alone.
func (w *world) abdicate(r *replica) error {
	if w.leader != r.number {
		return nil
	}
	for p := w.oldest(); p != nil && w.random.IntN(2) == 0; p = w.oldest() {
		if err := w.commit(p); err != nil {
			return err
		}
	}
	if p := w.oldest(); p != nil && p.seq > 0 && !w.healing && w.random.IntN(2) == 0 {
		if err := w.fork(r, p); err != nil {
			return err
		}
	}
	for p := w.oldest(); p != nil; p = w.oldest() {
		w.lose(r, p)
	}
	w.leader = -1
	return nil
}

// fork lets a deposed owner install its own entry under the term of the next leader, which has another entry in its
// place in its log. No majority has the entry, so no client may get the answer that it was counted, and this replica
// must skip it.
func (w *world) fork(r *replica, p *proposal) error {
	if err := w.hearAll(r); err != nil {
		return err
	}
	outcome, err := r.state.Install(p.payload, w.log.index+1, w.log.term+1)
	if err != nil {
		return err
	}
	w.tally.note("written under the next term by a deposed owner")
	w.tellf("%v alone installs its %v under term %d: %v", r, p, w.log.term+1, outcome.Dropped)
	p.fate, p.outcome = decided, outcome
	return w.settle(r)
}

// appendLate lets an entry into the log that no proposer waits for anymore: one that was lost, or another copy of one
// that is there. Two contracts hold: a refused entry never enters the log, and entries of one epoch come in order while
// that epoch is open.
func (w *world) appendLate() error {
	p := w.chooseLate()
	if p == nil {
		return nil
	}
	state := w.log.state
	switch {
	case p.seq == 0:
		w.tally.note("late epoch open")
	case p.epoch == state.Epoch():
		w.tally.note("late entry of the open epoch")
	case p.seq == state.Seq()+1 && w.log.term == w.log.openTerm:
		w.tally.note("late entry of an old epoch, next in line, same term")
	}
	w.tellf("log: a late %v", p)
	return w.appendEntry(p)
}

// chooseLate prefers the hardest case for the fence: entries of old epochs with exactly the next number.
func (w *world) chooseLate() *proposal {
	state := w.log.state
	var found *proposal
	consider := func(p *proposal) (best bool) {
		passed := p.epoch < state.Epoch() || p.seq <= state.Seq()
		if p.seq > 0 && !passed {
			return false
		}
		if found == nil || w.random.IntN(4) == 0 {
			found = p
		}
		return p.seq == state.Seq()+1
	}
	for _, p := range w.log.late {
		if consider(p) && w.random.IntN(4) > 0 {
			return p
		}
	}
	for i := len(w.log.entries) - 1; i >= max(0, len(w.log.entries)-60); i-- {
		if p := w.log.entries[i].from; p.seq > 0 && consider(p) && w.random.IntN(4) > 0 {
			return p
		}
	}
	return found
}

// fault makes one thing go wrong.
func (w *world) fault() error {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	switch w.random.IntN(12) {
	case 0:
		return w.crash(r)
	case 1, 2:
		return w.restart(r)
	case 3:
		return w.elect(r.number)
	case 4:
		if w.leader >= 0 {
			return w.abdicate(w.replicas[w.leader])
		}
	case 5, 6:
		return w.failProposal()
	case 7, 8:
		return w.appendLate()
	case 9:
		w.tally.note("reference stepped back")
		r.ahead -= w.random.Int64N(3_000_000)
	case 10:
		r.ahead = w.random.Int64N(1_000_000)
	case 11:
		w.tally.note("machine stood still")
		w.stand(r)
	}
	return nil
}

// failProposal makes the leader's oldest proposal fail while it continues to lead.
func (w *world) failProposal() error {
	p := w.oldest()
	if p == nil {
		return nil
	}
	r := w.replicas[w.leader]
	switch w.random.IntN(4) {
	case 0:
		w.tally.note("refused by the leader")
		w.refuse(r, p, errNotOwner)
	case 1:
		w.tally.note("unavailable")
		w.refuse(r, p, &shard.Error{Code: shard.Unavailable, Message: "low disk"})
	case 2:
		w.lose(r, p)
	default:
		w.tally.note("logged as unknown")
		w.tellf("log: %v of %v is in it, but the wait timed out", p, r)
		p.fate, p.err = decided, errUnknown
		return w.appendEntry(p)
	}
	return nil
}
