package shard

import (
	"fmt"
	"iter"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/table"
)

// State is the replicated state of one shard. One goroutine may change it (Install); reads must not overlap a change.
type State struct {
	id     ID
	epoch  uint64     // Raft index of the newest epochOpen entry
	term   uint64     // Raft term in which that entry was written
	seq    uint64     // entries installed in this epoch
	time   limit.Time // shard time of the newest entry; never falls
	table  *table.Table
	shares shares // of the table
	due    *dues  // of the open legs and rulings in the table

	slotted bool // there is a record of a slot

	swept int // records removed by the sweep of the newest entry that is not a batch

	sums   [sumsKept]SumAt // a ring, indexed by summed, the number of sum entries seen
	summed int
}

// Outcome is the result of installing one entry. Only an Outcome with Dropped == NotDropped opens the output gate.
type Outcome struct {
	Dropped DropReason
	Epoch   uint64     // of the state after the entry; for an epochOpen its own index
	Seq     uint64     // of the state after the entry
	Time    limit.Time // shard time after the entry
}

// DropReason is why an entry of a deposed owner was dropped. Every replica decides it alike, from the log alone.
type DropReason uint8

// The reasons.
const (
	NotDropped DropReason = iota
	OldEpoch              // its epoch is not the open one
	OtherTerm             // it was not written in the Raft term that opened its epoch
	WrongSeq              // it is not the next entry of its epoch
)

// String returns the reason's label in metrics.
func (r DropReason) String() string {
	return [...]string{"installed", "epoch", "term", "seq"}[r]
}

// NewState returns the state of a shard that has seen no entry.
func NewState(id ID) *State {
	s := &State{id: id, due: newDues()}
	s.table = table.New(keyLayout{}, s.shares.count)
	return s
}

// Install applies one log entry, with its Raft index and the Raft term in which it was written. An error means that
// this replica must halt before it answers anything: the payload is corrupt, of an unknown format or of another shard,
// or its time falls (R2a). Nothing has changed then. The sum in a sum entry never halts a replica (R12).
func (s *State) Install(payload []byte, index, term uint64) (Outcome, error) {
	e, err := decodeEntry(payload)
	if err != nil {
		return Outcome{}, err
	}
	if e.shard != s.id {
		return Outcome{}, fmt.Errorf("shard: entry %d is shard %d's, this is shard %d", index, e.shard, s.id)
	}
	if e.kind == epochOpen {
		//mutant:epoch-brings-its-own-time //mutant:epoch-is-the-term
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
	s.install(&e)
	return s.outcome(NotDropped), nil
}

// fence decides whether the entry is the next one of the open epoch (R2).
func (s *State) fence(e *entry, term uint64) DropReason {
	switch {
	case e.epoch != s.epoch: //mutant:no-epoch-fence
		return OldEpoch
	case term != s.term: //mutant:no-term-fence
		return OtherTerm
	case e.seq != s.seq+1: //mutant:no-number-fence
		return WrongSeq
	}
	return NotDropped
}

func (s *State) install(e *entry) {
	s.seq, s.time = e.seq, e.time
	for i := range e.puts {
		if p := &e.puts[i]; p.Value == nil {
			s.table.Forget(p.Key)
		} else {
			s.table.Put(p.Key, p.Record)
		}
		s.note(e.puts[i].Key, e.puts[i].Value)
	}
	before := s.table.Records()
	if e.kind == batchEntry {
		s.table.Sweep(4+len(e.puts)/8, math.MaxInt, e.time)
	} else {
		s.table.Sweep(sumSweepSegments, sumSweepRecords, e.time)
		s.swept = before - s.table.Records()
	}
	if e.kind == sumEntry {
		s.sums[s.summed%sumsKept] = SumAt{SumVersion, s.epoch, s.seq, s.Sum()}
		s.summed++
	}
}

// note updates what the state knows of its records, for one that was written or, with a nil value, removed.
func (s *State) note(key string, value []byte) {
	s.due.note(key, value)
	s.slotted = s.slotted || len(key) > 0 && key[0] == slotRecord // none is ever removed
}

// The sweep of an entry is bounded, since the next entry waits for it. A batch sweeps at least as many segments as it
// can have filled. A sum entry, the only kind on an idle shard, sweeps many, in about a millisecond.
const (
	sumSweepSegments = 2048
	sumSweepRecords  = 4096
)

// EndedRemain reports whether many ended records probably wait to be swept: since keys are spread over the segments by
// their hash, a sweep that removed many will do so again. The owner of an idle shard then logs the next sum entry
// sooner.
func (s *State) EndedRemain() bool { return s.swept >= sumSweepRecords/4 }

func (s *State) outcome(reason DropReason) Outcome {
	return Outcome{Dropped: reason, Epoch: s.epoch, Seq: s.seq, Time: s.time}
}

// Epoch returns the Raft index of the newest epochOpen entry; 0 before the first.
func (s *State) Epoch() uint64 { return s.epoch }

// Term returns the Raft term of the newest epochOpen entry; 0 before the first.
func (s *State) Term() uint64 { return s.term }

// Seq returns the number of entries installed in this epoch.
func (s *State) Seq() uint64 { return s.seq }

// Time returns the shard time of the newest entry.
func (s *State) Time() limit.Time { return s.time }

// Records returns the number of records, including some that have ended and are not yet swept.
func (s *State) Records() int { return s.table.Records() }

// Bytes returns the memory of the records on this replica: their bytes, the index, and spare capacity. Replicas may
// differ in it, so it is for an owner's own cap and must not affect an entry. It is a cheap call.
func (s *State) Bytes() int { return s.table.Bytes() + s.due.bytes }

// All implements Records on the committed state.
func (s *State) All() iter.Seq2[[]byte, Record] { return s.table.All() }

// Scan implements Records on the committed state.
func (s *State) Scan(from uint64) iter.Seq2[[]byte, Record] { return s.table.Scan(from) }

// Shares implements View on the committed state.
func (s *State) Shares(namespace, policy string) Shares { return s.shares.of(namespace, policy) }

// Room implements View on the committed state, which nothing bounds.
func (s *State) Room() Room { return Room{} }

// HasSlotRecords implements View on the committed state.
func (s *State) HasSlotRecords() bool { return s.slotted }

// Lookup implements Records on the committed state.
func (s *State) Lookup(key string) (Record, bool) { return s.table.Lookup(key) }
