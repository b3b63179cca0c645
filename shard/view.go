package shard

import (
	"iter"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// Records is the lookup of records: in a State, or on top of it.
type Records interface {
	// Lookup returns a record. The caller must not change its Value, nor keep it beyond the evaluation. Lookup does not
	// keep the key.
	Lookup(key string) (Record, bool)
	// All yields every record once, in any order, including those that have ended. The caller must neither change nor
	// keep them. It takes about 100 ns for each record.
	All() iter.Seq2[[]byte, Record]
	// Scan is All slot by slot, and in a slot in the order of the keys' hashes, from a place on.
	Scan(from uint64) iter.Seq2[[]byte, Record]
}

// View is the input of an evaluation: committed state. A *State is one.
type View interface {
	Records
	// Room returns how much room there is for records. It is the same throughout an evaluation.
	Room() Room
	// HasSlotRecords reports whether there may be a record of a slot (SlotStatus). It is the same throughout an
	// evaluation.
	HasSlotRecords() bool
	// Shares returns how much of the shard a policy of a namespace takes. Inline limits have no policy: see
	// InlinePolicy.
	Shares(namespace, policy string) Shares
}

// Stamp is the position and the instant of a batch. Now, Slots and the Shard affect decisions. Epoch and Seq name what
// the batch makes: answers, holds and sessions.
type Stamp struct {
	Position
	Now limit.Time
	// Slots says which shard owns a slot that this one has no record of. Any version of the cluster's table may say
	// so, since the shard has never taken part in a move of it. System: it is not known. nil: this shard owns all of
	// them.
	Slots *slot.Map
	// Level is the cluster's feature level: no effect has a newer format. 0 is LevelNewest, for tests and simulations,
	// which have no cluster; an actor always sets it.
	Level Level
}

// tableOwns reports whether the shard owns a slot that it has no record of.
func (s *Stamp) tableOwns(at slot.ID) bool { return s.Slots == nil || ID(s.Slots[at]) == s.Shard }

// Position is a place in a shard's history: the seq-th entry of an epoch.
type Position struct {
	Shard ID
	Epoch uint64 // the Raft index of the entry that opened it
	Seq   uint64 // from 1
}
