package top

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

var seed = maphash.MakeSeed()

func (s *Sketch) count(key string, n uint64) int {
	return s.Add(maphash.String(seed, key), []byte(key), n)
}

// traffic is a source of keys: some are hot, many come once.
func traffic(r *rand.Rand, hot, cold int) func() string {
	return func() string {
		if r.IntN(3) > 0 {
			return fmt.Sprint("hot-", int(float64(hot)*r.Float64()*r.Float64()))
		}
		return fmt.Sprint("cold-", r.IntN(cold))
	}
}

// judge compares a summary with the exact counts.
func judge(sum *Summary, exact map[string]uint64) error {
	var total uint64
	listed := make(map[string]bool)
	for _, n := range exact {
		total += n
	}
	if sum.Total != total {
		return fmt.Errorf("the total is %d, and %d were counted", sum.Total, total)
	}
	for i, row := range sum.Rows {
		if n := exact[row.Key]; row.Err > row.Count || row.Count-row.Err > n || n > row.Count {
			return fmt.Errorf("%q had %d: %d with an error of %d is wrong", row.Key, n, row.Count, row.Err)
		}
		if i > 0 && sum.Rows[i-1].Count < row.Count {
			return fmt.Errorf("%q is out of order", row.Key)
		}
		if listed[row.Key] {
			return fmt.Errorf("%q is listed twice", row.Key)
		}
		listed[row.Key] = true
	}
	for key, n := range exact {
		if !listed[key] && n > sum.Floor {
			return fmt.Errorf("%q had %d and is not listed, and the floor is %d", key, n, sum.Floor)
		}
	}
	return nil
}

func TestCountsAreBracketed(t *testing.T) {
	for round := range uint64(300) {
		r := rand.New(rand.NewPCG(1, round))
		next := traffic(r, 1+r.IntN(200), 1+r.IntN(2000))
		s, exact := &Sketch{}, map[string]uint64{}
		for range r.IntN(5000) {
			key, n := next(), uint64(1)
			if round%2 == 0 {
				n = 1 + r.Uint64N(1000)
			}
			s.count(key, n)
			exact[key] += n
		}
		all, first := s.Summary(sketchKeys), s.Summary(1+r.IntN(summaryKeys))
		for _, sum := range []*Summary{&all, &first} {
			if err := judge(sum, exact); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if most := s.total / sketchKeys; all.Floor > most {
			t.Fatalf("round %d: the floor is %d, more than %d", round, all.Floor, most)
		}
		for key, n := range exact {
			if _, found := s.find(maphash.String(seed, key), []byte(key)); !found && n > s.total/sketchKeys {
				t.Fatalf("round %d: %q had %d of %d and is not listed", round, key, n, s.total)
			}
		}
	}
}

func TestMergedCountsAreBracketed(t *testing.T) {
	for round := range uint64(200) {
		r := rand.New(rand.NewPCG(2, round))
		exact := map[string]uint64{}
		var parts []Summary
		for range 1 + r.IntN(8) {
			next := traffic(r, 1+r.IntN(100), 1+r.IntN(500))
			s := &Sketch{}
			for range r.IntN(2000) {
				key := next()
				s.count(key, 1)
				exact[key]++
			}
			parts = append(parts, s.Summary(summaryKeys))
		}
		most := 1 + r.IntN(2*summaryKeys)
		sum := Merge(parts, most)
		if err := judge(&sum, exact); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if len(sum.Rows) > most {
			t.Fatalf("round %d: %d rows", round, len(sum.Rows))
		}
	}
}

// A sketch that was emptied counts as a new one, and takes no more memory for keys that are no longer.
func TestAnEmptiedSketchIsNew(t *testing.T) {
	s := &Sketch{}
	for range 3 {
		grown := 0
		exact := map[string]uint64{}
		for i := range 1000 {
			key := fmt.Sprintf("key-%08d", i%300)
			grown += s.count(key, 1)
			exact[key]++
		}
		sum := s.Summary(sketchKeys)
		if err := judge(&sum, exact); err != nil {
			t.Fatal(err)
		}
		if first := s.slots[0].key; cap(first) != 32 {
			t.Errorf("a key of %d bytes takes %d", len(first), cap(first))
		}
		s.clear()
		if again := s.count("key-00000000", 1); again != 0 {
			t.Errorf("the emptied sketch grows by %d bytes", again)
		}
		s.clear()
	}
}

func TestAddingDoesNotAllocate(t *testing.T) {
	b := NewBoard(NewBudget(0), 0)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d@example.com", i)
	}
	i := 0
	add := func() {
		b.Add("default", "login", keys[i%len(keys)], i%2 == 0, uint64(i%3))
		i++
	}
	for range 10_000 {
		add()
	}
	if n := testing.AllocsPerRun(10_000, add); n > 0 {
		t.Errorf("%v allocations for each decision", n)
	}
}

// BenchmarkAdd: hot is traffic with two thirds about few keys; flood is keys that were never seen, the worst case.
func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct {
		name string
		hot  int
		keys int
	}{{"one", 1, 1}, {"hot", 100, 100_000}, {"flood", 0, 1 << 20}} {
		r := rand.New(rand.NewPCG(3, 3))
		keys := make([]string, 1<<16)
		for i := range keys {
			keys[i] = fmt.Sprintf("user:%08d@example.com", r.IntN(c.keys))
			if c.hot > 0 && r.IntN(3) > 0 {
				keys[i] = fmt.Sprintf("user:%08d@example.com", r.IntN(c.hot))
			}
		}
		b.Run(c.name, func(b *testing.B) {
			board := NewBoard(NewBudget(0), 0)
			for _, key := range keys {
				board.Add("default", "login", key, true, 1)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				// three admitted, one denied
				board.Add("default", "login", keys[i%len(keys)], i%4 == 0, uint64(min(i%4, 1)))
			}
		})
	}
}
