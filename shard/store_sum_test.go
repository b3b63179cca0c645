package shard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

// all returns the sums of the minutes in which any record ends.
func (e *endings) all() map[limit.Time]uint64 {
	sums := make(map[limit.Time]uint64)
	for _, at := range e.near {
		if at.sum != 0 {
			sums[at.minute] = at.sum
		}
	}
	for minute, sum := range e.far {
		sums[minute] = sum
	}
	return sums
}

// Releases may sweep at different times: here one drops ended records at once, the other with the log.
func TestSumsDoNotDependOnWhatWasSwept(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		l := newLog(rnd)
		usual, eager := NewState(3), NewState(3)
		layouts := 0
		for range 600 {
			l.now += limit.Time(rnd.IntN(int(2 * minute)))
			for _, e := range l.next(t, []*State{usual}) {
				if _, err := eager.Install(e.payload, e.index, e.term); err != nil {
					t.Fatal(err)
				}
				eager.table.sweep(rnd.IntN(50), rnd.IntN(50), eager.time)
			}
			if usual.Sum() != eager.Sum() || !slices.Equal(usual.Sums(), eager.Sums()) {
				t.Fatalf("seed %d, entry %d: sums %016x and %016x, kept %v and %v", seed, l.index, usual.Sum(), eager.Sum(),
					usual.Sums(), eager.Sums())
			}
			if usual.pictureSum() != eager.pictureSum() {
				layouts++
			}
		}
		audit(t, eager.table)
		if layouts == 0 {
			t.Fatalf("seed %d: the replicas never differed in what they had swept", seed)
		}
	}
}

// summed returns a state with some records, and a function that installs further entries.
func summed(t *testing.T) (s *State, entry func(func(Stamp) []byte)) {
	s = NewState(3)
	if _, err := s.Install(EncodeEpochOpen(3, origin, LevelNewest), 5, 1); err != nil {
		t.Fatal(err)
	}
	entry = func(encode func(Stamp) []byte) {
		t.Helper()
		payload := encode(Stamp{Position: Position{3, 5, s.Seq() + 1}, Now: s.Time() + 1})
		if outcome, err := s.Install(payload, 6+s.Seq(), 1); err != nil || outcome.Dropped != NotDropped {
			t.Fatalf("%+v, %v", outcome, err)
		}
	}
	for i := range 100 {
		entry(putting(fmt.Sprint("key ", i), "value"))
	}
	return s, entry
}

func putting(key, value string) func(Stamp) []byte {
	return func(at Stamp) []byte {
		return EncodeBatch(at, []Put{{key, Record{[]byte(value), origin + limit.Time(hour)}}})
	}
}

func TestTheNewestEightSumsAreKept(t *testing.T) {
	s, entry := summed(t)
	var want []SumAt
	for range 20 {
		entry(EncodeSum)
		want = append(want, SumAt{SumVersion, s.Epoch(), s.Seq(), s.Sum()})
		if got := s.Sums(); !slices.Equal(got, want[max(0, len(want)-8):]) {
			t.Fatalf("kept %v of %v", got, want)
		}
	}
}

// A flipped bit shows when the record is replaced, and from then on.
func TestAFlippedBitShowsInTheSums(t *testing.T) {
	for bit := range 8 * len("value") {
		good, goodEntry := summed(t)
		bad, badEntry := summed(t)
		r, _ := bad.Lookup("key 7")
		r.Value[bit/8] ^= 1 << (bit % 8)
		for range 3 {
			for _, entry := range []func(func(Stamp) []byte){goodEntry, badEntry} {
				entry(putting("key 7", "other value"))
				entry(EncodeSum)
			}
			if good.Sum() == bad.Sum() || slices.Equal(good.Sums(), bad.Sums()) {
				t.Fatalf("bit %d flipped, and the sums are equal", bit)
			}
		}
	}
}

// A picture with any flipped bit in a record is refused, including key, lengths and end, and nobody who looks for a record falls
// over it.
func TestAFlippedBitIsInNoPicture(t *testing.T) {
	s, install := summed(t)
	for _, length := range []int{254, 255, 256, 300} {
		install(putting(strings.Repeat("k", length), "a long key"))
		install(putting(fmt.Sprint("long value ", length), strings.Repeat("v", length)))
	}
	keys := slices.Collect(maps.Keys(allRecords(s.table)))
	g := s.table.segments.at(s.table.segmentIndex(0))
	for bit := range 8 * len(g.data) {
		flip := func() { g.data[bit/8] ^= 1 << (bit % 8) }
		flip()
		if _, err := s.Snapshot().WriteTo(&bytes.Buffer{}); !errors.Is(err, ErrDiverged) {
			t.Errorf("bit %d of byte %d flipped: %v", bit%8, bit/8, err)
		}
		for _, key := range keys {
			s.Lookup(key)
		}
		g = s.table.segments.at(0)
		flip()
	}
	if back := restored(t, fileOf(t, s.Snapshot())); back.Sum() != s.Sum() || back.pictureSum() != s.pictureSum() {
		t.Errorf("sums %016x and %016x came back as %016x and %016x", s.Sum(), s.pictureSum(), back.Sum(), back.pictureSum())
	}
}

// A record with a flipped bit is lost, and perhaps those behind it; but nobody who puts, forgets, sweeps, splits or merges panics.
func TestAFlippedBitEndsNobody(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 2000 {
		table := newTable()
		for i := range 60 { // two segments or three
			length := []int{rnd.IntN(40), 250 + rnd.IntN(10)}[i%2]
			table.put(fmt.Sprint("key ", i), Record{make([]byte, length), limit.Time(rnd.IntN(100))})
		}
		g := table.segments.at(rnd.IntN(table.segments.length))
		bit := rnd.IntN(8 * len(g.data))
		if rnd.IntN(2) == 0 {
			bit = rnd.IntN(8 * g.stubsEnd())
		}
		g.data[bit/8] ^= 1 << (bit % 8)
		for i := range 120 {
			table.put(fmt.Sprint("key ", i), Record{make([]byte, rnd.IntN(300)), limit.Time(rnd.IntN(100))})
			table.lookup(fmt.Sprint("key ", i))
		}
		table.sweep(1, 10, 50)
		for i := range 120 {
			table.forget(fmt.Sprint("key ", i))
		}
		table.sweep(table.segments.length, 1000, 100)
	}
}
