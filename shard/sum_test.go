package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

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
				eager.table.Sweep(rnd.IntN(3000), rnd.IntN(50), eager.time)
			}
			if usual.Sum() != eager.Sum() || !slices.Equal(usual.Sums(), eager.Sums()) {
				t.Fatalf("seed %d, entry %d: sums %016x and %016x, kept %v and %v",
					seed, l.index, usual.Sum(), eager.Sum(), usual.Sums(), eager.Sums())
			}
			if usual.Records() != eager.Records() {
				layouts++
			}
		}
		audit(t, eager)
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
		return EncodeBatch(at, []Put{{key, Record{Value: []byte(value), ForgetAt: origin + limit.Time(hour)}}})
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
