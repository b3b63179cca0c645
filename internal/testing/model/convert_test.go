package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stint-io/stint/limit"
)

// TestConversionsAgreeWithTheTwin changes the limit again and again, between all algorithms and under all operations.
// No change frees units: what was used before is used afterwards.
func TestConversionsAgreeWithTheTwin(t *testing.T) {
	seed, ops := seeded(), *opsFlag
	t.Logf("to repeat: go test ./internal/testing/model -run %s -seed %d -operations %d", t.Name(), seed, ops)
	var pairs [limit.Concurrency + 1][limit.Concurrency + 1]int
	for done := 0; done < ops; done += opsPerWorld {
		rng := rand.New(rand.NewPCG(seed, uint64(done)))
		w := newWorld(t, rng, limit.FixedWindow)
		for before := range opsPerWorld / 20 {
			l := modestLimit(rng)
			if before > 0 {
				pairs[w.l.Algorithm][l.Algorithm]++
			}
			w.convert(l)
			w.run(20)
		}
	}
	for from := limit.FixedWindow; from <= limit.Concurrency; from++ {
		for to := limit.FixedWindow; to <= limit.Concurrency; to++ {
			if pairs[from][to] < ops/20/500 {
				t.Errorf("only %d times from algorithm %d to %d", pairs[from][to], from, to)
			}
		}
	}
}

// modestLimit is a limit of any algorithm, with numbers that no conversion saturates.
func modestLimit(rng *rand.Rand) limit.Limit {
	for {
		l := randomLimit(rng, limit.FixedWindow+limit.Algorithm(rng.IntN(int(limit.Concurrency))))
		if l.Quota <= 1000 && l.Period <= 3600*1_000_000 && l.Count <= 1000 {
			return l
		}
	}
}

func (w *world) convert(to limit.Limit) {
	from, before := w.l, limit.Status(w.l, w.state, w.now)
	rested := neverBegun(w.twin.memory)
	w.state = limit.Convert(w.l, w.state, to, w.now)
	w.l = to
	w.twin.Convert(to, w.now)
	after := limit.Status(w.l, w.state, w.now)
	w.tell(fmt.Sprintf("convert to %+v", to), 0, w.now, after)
	w.compare("convert", after, 0, w.twin.numbers(w.now))
	// A log with a shorter period drops hits that it would not have counted.
	if after.Used < before.Used && !rested && !(isLog(from) && isLog(to)) {
		w.fail("%d were used of %+v, now %d", before.Used, from, after.Used)
	}
}
