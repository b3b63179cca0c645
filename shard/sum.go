package shard

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/shard/table"
)

// SumVersion is the definition of a sum. Sums of two versions are not comparable.
const SumVersion = 1

// SumAt is the sum of a replica's records at one place of the log: directly after the sum entry there.
type SumAt struct {
	Version    uint32
	Epoch, Seq uint64
	Sum        uint64
}

// sumsKept is how many of its sums a replica keeps for comparison with other replicas.
const sumsKept = 8

// Sums returns the newest sums of this replica, oldest first. They are not part of a Snapshot.
func (s *State) Sums() []SumAt {
	kept := s.sums[:min(s.summed, sumsKept)]
	at := 0
	if len(kept) == sumsKept {
		at = s.summed % sumsKept
	}
	return append(append(make([]SumAt, 0, len(kept)), kept[at:]...), kept[:at]...)
}

// Sum returns the fingerprint of the state that every replica must agree on at one place of the log, regardless of its
// release: epoch, term, seq and time, and the records that no replica may have forgotten yet. The sweep of ended
// records and the layout of the table depend on the release. So ended records, and those that end within the running
// minute, are left out.
func (s *State) Sum() uint64 {
	x := s.table.SumAfter(s.time)
	for _, part := range [...]uint64{s.epoch, s.term, s.seq, uint64(s.time)} {
		x = table.Mix(x, part)
	}
	return x ^ uint64(s.id)*xxhash.Sum64String("stint shard")
}
