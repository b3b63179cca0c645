package shard

import (
	"io"

	"github.com/stint-io/stint/limit"
)

// State is the replicated state of one shard. One goroutine may change it (Install); reads must not overlap a change.
type State struct {
	id ID
}

// Outcome is what installing one entry came to. Only an Outcome with Dropped == NotDropped opens the output gate.
type Outcome struct {
	Dropped DropReason
	Epoch   uint64     // of the state after the entry; for an EpochOpen its own index
	Seq     uint64
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
func NewState(id ID) *State { return &State{id: id} }

// Install applies one log entry, which stands at a Raft index and was written in a Raft term. An error means that this
// replica must halt before it answers anything: the payload is corrupt, of an unknown format, another shard's, or its
// time falls (SEMANTICS R2a). Nothing was changed then.
func (s *State) Install(payload []byte, index, term uint64) (Outcome, error) { panic("being written") }

// Epoch is the Raft index of the newest EpochOpen; 0 before the first.
func (s *State) Epoch() uint64 { panic("being written") }

// Seq counts the entries installed in this epoch.
func (s *State) Seq() uint64 { panic("being written") }

// Time is the shard time of the newest entry.
func (s *State) Time() limit.Time { panic("being written") }

// Sum is the fingerprint of everything replicated: replicas at one index must agree.
func (s *State) Sum() uint64 { panic("being written") }

// Keys counts the records kept.
func (s *State) Keys() int { panic("being written") }

// Lookup implements View on the committed state.
func (s *State) Lookup(key string) (Record, bool) { panic("being written") }

// Snapshot takes a picture of the state. It is cheap, and the picture may be written by another goroutine while
// entries go on being installed.
func (s *State) Snapshot() *Snapshot { panic("being written") }

// Snapshot is an immutable picture of a State.
type Snapshot struct{}

// WriteTo writes the picture, with its own checksum and fingerprint.
func (p *Snapshot) WriteTo(w io.Writer) (int64, error) { panic("being written") }

// Release lets go of what the picture shares with the live state. It must be called once, whatever WriteTo returned.
func (p *Snapshot) Release() {}

// Restore reads a picture back into a fresh State, verifying checksum and fingerprint.
func Restore(id ID, r io.Reader) (*State, error) { panic("being written") }
