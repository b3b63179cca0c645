package shard

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// State is the replicated state of one shard. One goroutine may change it (Install); reads must not overlap a change.
type State struct {
	id    ID
	epoch uint64     // Raft index of the newest EpochOpen
	term  uint64     // Raft term in which that entry was written
	seq   uint64     // entries installed in this epoch
	time  limit.Time // shard time of the newest entry; never falls
	table *table
	due   *dues
}

// Outcome is what installing one entry came to. Only an Outcome with Dropped == NotDropped opens the output gate.
type Outcome struct {
	Dropped DropReason
	Epoch   uint64     // of the state after the entry; for an EpochOpen its own index
	Seq     uint64     // of the state after the entry
	Time    limit.Time // shard time after the entry
}

// DropReason says why an entry of a deposed owner was passed over. Every replica judges it alike, from the log alone.
type DropReason uint8

// The reasons.
const (
	NotDropped DropReason = iota
	OldEpoch
	OtherTerm
	WrongSeq
)

// String names the reason as metrics do.
func (r DropReason) String() string {
	return [...]string{"installed", "epoch", "term", "seq"}[r]
}

// NewState makes the state of a shard that never saw an entry.
func NewState(id ID) *State { return &State{id: id, table: newTable(), due: newDues()} }

// Install applies one log entry, which stands at a Raft index and was written in a Raft term. An error means that this
// replica must halt before it answers anything: the payload is corrupt, of an unknown format, another shard's, its
// time falls, or the owner's fingerprint is not ours (SEMANTICS R2a, R12). Nothing was changed then.
func (s *State) Install(payload []byte, index, term uint64) (Outcome, error) {
	e, err := decodeEntry(payload)
	if err != nil {
		return Outcome{}, err
	}
	if e.shard != s.id {
		return Outcome{}, fmt.Errorf("shard: entry %d is shard %d's, this is shard %d", index, e.shard, s.id)
	}
	if e.kind == epochOpen {
		s.epoch, s.term, s.seq, s.time = index, term, 0, max(s.time, e.time)
		return s.outcome(NotDropped), nil
	}
	if reason := s.fence(&e, term); reason != NotDropped {
		return s.outcome(reason), nil
	}
	if e.time < s.time {
		return Outcome{}, fmt.Errorf("shard: entry %d would turn shard %d's time back from %d to %d",
			index, s.id, s.time, e.time)
	}
	if e.kind == sumCheck && e.sum != s.Sum() {
		return Outcome{}, fmt.Errorf("shard: shard %d has forked before entry %d: the owner's fingerprint is %016x, ours %016x",
			s.id, index, e.sum, s.Sum())
	}
	s.install(&e)
	return s.outcome(NotDropped), nil
}

// fence judges whether the entry is the next one of the open epoch (DESIGN.md section 3, SEMANTICS R2).
func (s *State) fence(e *entry, term uint64) DropReason {
	switch {
	case e.epoch != s.epoch:
		return OldEpoch
	case term != s.term:
		return OtherTerm
	case e.seq != s.seq+1:
		return WrongSeq
	}
	return NotDropped
}

func (s *State) install(e *entry) {
	s.seq, s.time = e.seq, e.time
	for i := range e.puts {
		if p := &e.puts[i]; p.Value == nil {
			s.table.forget(p.Key)
		} else {
			s.table.put(p.Key, p.Record)
		}
		s.due.note(e.puts[i].Key, e.puts[i].Value)
	}
	if e.kind == sumCheck {
		s.table.sweep(sumSweepSegments, sumSweepRecords, e.time)
	} else {
		s.table.sweep(4+len(e.puts)/8, math.MaxInt, e.time)
	}
}

// What an entry forgets is bounded, since the next one waits for it. A batch looks at as many segments, and more, as it can
// have filled. A fingerprint entry, the only one that an idle shard has, looks at many: each is a millisecond's work.
const (
	sumSweepSegments = 2048
	sumSweepRecords  = 4096
)

func (s *State) outcome(reason DropReason) Outcome {
	return Outcome{Dropped: reason, Epoch: s.epoch, Seq: s.seq, Time: s.time}
}

// Epoch is the Raft index of the newest EpochOpen; 0 before the first.
func (s *State) Epoch() uint64 { return s.epoch }

// Seq counts the entries installed in this epoch.
func (s *State) Seq() uint64 { return s.seq }

// Time is the shard time of the newest entry.
func (s *State) Time() limit.Time { return s.time }

// Records counts the records kept: keys and idempotency records, among them some that ended and are not yet swept.
func (s *State) Records() int { return s.table.records }

// Bytes is the memory that the records hold here: their bytes, the places to find them, and room for growth. Replicas
// may differ in it, so it is for an owner's own cap and never for what an entry does. It costs nothing to ask.
func (s *State) Bytes() int { return s.table.bytes }

// Sum is the fingerprint of everything replicated: replicas at one index must agree.
func (s *State) Sum() uint64 {
	x := s.table.sum
	for _, part := range [...]uint64{s.epoch, s.term, s.seq, uint64(s.time), uint64(s.table.records),
		uint64(s.table.segments.length), uint64(s.table.cursor)} {
		x = recordSum(x, Record{ForgetAt: limit.Time(part)})
	}
	return x ^ uint64(s.id)*xxhash.Sum64String("stint shard")
}

// Lookup implements View on the committed state.
func (s *State) Lookup(key string) (Record, bool) { return s.table.lookup(key) }
