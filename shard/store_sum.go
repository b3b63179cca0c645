package shard

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
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

func (s *State) noteSum() {
	s.sums[s.summed%sumsKept] = SumAt{SumVersion, s.epoch, s.seq, s.Sum()}
	s.summed++
}

// Sum returns the fingerprint of the state that every replica must agree on at one place of the log, whatever its release:
// epoch, term, seq and time, and the records that no replica may have forgotten yet. The sweep of ended records and the
// layout of the table depend on the release. So ended records, and those that end within the running minute, are left out.
func (s *State) Sum() uint64 {
	x := s.table.ending.after(s.time)
	for _, part := range [...]uint64{s.epoch, s.term, s.seq, uint64(s.time)} {
		x = recordSum(x, Record{ForgetAt: limit.Time(part)})
	}
	return x ^ uint64(s.id)*xxhash.Sum64String("stint shard")
}

// pictureSum returns the fingerprint in a snapshot, of all its records and their layout. It is part of the format.
func (s *State) pictureSum() uint64 {
	return pictureSum([9]uint64{uint64(s.id), s.epoch, s.term, s.seq, uint64(s.time), uint64(s.table.cursor),
		uint64(s.table.records), uint64(s.table.segments.length)}, s.table.sum)
}

// pictureSum returns the fingerprint for a picture's head and the sum of the records.
func pictureSum(head [9]uint64, records uint64) uint64 {
	x := records
	for _, part := range [...]uint64{head[1], head[2], head[3], head[4], head[6], head[7], head[5]} {
		x = recordSum(x, Record{ForgetAt: limit.Time(part)})
	}
	return x ^ head[0]*xxhash.Sum64String("stint shard")
}

// endings holds the sums of a table's records by the minute in which they end, so that the sum of the records that no
// replica may have forgotten is found without looking at any record. Nearly all changes are in a recently changed minute.
type endings struct {
	near [64]ending // by minute, modulo its length
	far  map[limit.Time]uint64
}

type ending struct {
	minute limit.Time
	sum    uint64
}

const sumMinute = limit.Time(60e6)

// add adds a record's sum, or removes the record with its negative sum.
func (e *endings) add(forgetAt limit.Time, sum uint64) {
	minute := forgetAt / sumMinute
	at := &e.near[uint64(minute)%uint64(len(e.near))]
	if at.minute != minute {
		e.exchange(at, minute)
	}
	at.sum += sum
}

// exchange replaces one minute with another. An empty minute is dropped.
func (e *endings) exchange(at *ending, minute limit.Time) {
	if at.sum != 0 {
		if e.far == nil {
			e.far = make(map[limit.Time]uint64)
		}
		e.far[at.minute] = at.sum
	}
	*at = ending{minute, e.far[minute]}
	delete(e.far, minute)
}

// after returns the sum of the records that end after the running minute.
func (e *endings) after(now limit.Time) (sum uint64) {
	running := now / sumMinute
	for i := range e.near {
		if e.near[i].minute > running { //mutant:sum-holds-what-may-be-swept
			sum += e.near[i].sum
		}
	}
	for minute, part := range e.far {
		if minute > running {
			sum += part
		}
	}
	return sum
}
