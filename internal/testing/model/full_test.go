package model

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
)

// fullWorlds is how many restores each algorithm lives through.
const fullWorlds = 400

// TestNothingIsAdmittedTwiceAcrossARestore: a key has a history, a backup is made in the middle of it, and what follows
// is lost. It continues from the state in the backup, or from none, with limit.Full. The twin counts what was lost too.
// It must find room for every unit that is admitted afterwards.
func TestNothingIsAdmittedTwiceAcrossARestore(t *testing.T) {
	seed := seeded()
	t.Logf("to repeat: go test ./internal/testing/model -run %s -seed %d", t.Name(), seed)
	for a := limit.FixedWindow; a <= limit.Concurrency; a++ {
		if a == limit.Lifetime || a == limit.Unlimited {
			continue // what never resets cannot be promised
		}
		t.Run(fmt.Sprintf("algorithm %d", a), func(t *testing.T) {
			t.Parallel()
			var total restoreCensus
			for n := range uint64(fullWorlds) {
				r := &restoredWorld{world: newWorld(t, rand.New(rand.NewPCG(seed, uint64(a)<<32|n)), a), seen: &total}
				r.run()
			}
			t.Logf("%+v", total)
			if total.lost < 100 || total.denied < 100 || total.admitted < 100 || total.fresh < 10 {
				t.Errorf("not mixed: %+v", total)
			}
		})
	}
}

type restoreCensus struct{ lost, denied, admitted, fresh int }

// restoredWorld is a world that loses its state and finds it again, while its twin remembers everything.
type restoredWorld struct {
	*world
	full limit.Full
	seen *restoreCensus
}

func (r *restoredWorld) run() {
	backup, known := limit.State{}, 0
	knows := r.rng.IntN(3) > 0 // else the backup does not know the key, which has no debts in its history then
	if r.run1(r.rng.IntN(30), knows); knows {
		backup, known = r.state, len(r.taken)
	}
	r.run1(r.rng.IntN(30), false)
	r.now += limit.Time(r.rng.IntN(3)) * limit.Time(r.rng.Int64N(r.stride()+1))
	r.full = limit.Full{At: r.now, Hold: limit.Span(1 + r.rng.Int64N(1000))}
	lost := r.taken[min(known, len(r.taken)):]
	r.seen.lost += len(lost)
	r.state = r.full.With(r.l, backup)
	if r.rng.IntN(2) == 0 && reflect.DeepEqual(r.state, r.full.With(r.l, limit.State{})) {
		r.state = r.full.State(r.l, r.now) // as if no state had been kept
	}
	r.after(lost)
}

// run1 makes requests that both count.
func (r *restoredWorld) run1(requests int, debts bool) {
	for range requests {
		r.advance()
		switch n := r.rng.IntN(10); {
		case n < 7:
			r.take()
		case n < 9 && debts && r.l.Algorithm != limit.Concurrency:
			r.refund()
		case debts && r.l.Algorithm != limit.Concurrency && r.mayAdd():
			r.add()
		}
	}
}

// after is what happens after the restore: units that were taken before it no longer come back, except those of holds.
func (r *restoredWorld) after(lost []take) {
	r.taken = nil
	end := limit.ForgetAt(r.l, r.full.With(r.l, limit.State{}))
	for range 40 {
		if r.advance(); r.rng.IntN(6) == 0 && r.now < end {
			r.now = end - 1 + limit.Time(r.rng.IntN(2))
		}
		if r.l.Algorithm == limit.Concurrency && r.now >= r.full.At+limit.Time(r.full.Hold) {
			for _, h := range lost {
				r.twin.Refund(h.cost, h.at, r.now)
			}
			lost = nil
		}
		if r.now >= end && limit.ForgetAt(r.l, r.state) <= r.now {
			r.seen.fresh++
			r.state = limit.State{}
		}
		cost := r.cost()
		var v limit.Verdict
		before := r.state
		r.state, v = limit.Take(r.l, before, cost, r.now)
		r.tell("restored take", cost, r.now, v)
		r.last = v
		if !v.Allowed {
			r.seen.denied++
			r.exact(before, cost, v)
			continue
		}
		r.seen.admitted++
		if !r.twin.Admits(cost, r.now) {
			r.fail("%d units are admitted, and with what was lost the twin has no room: %v are used",
				cost, r.twin.memory.used(r.now))
		}
		r.twin.memory.count(cost, r.now)
		if r.rng.IntN(4) == 0 && r.l.Algorithm != limit.Concurrency {
			r.state = limit.Refund(r.l, r.state, cost, r.now, r.now)
			r.twin.Refund(cost, r.now, r.now)
		}
	}
}

// exact checks the wait of a denial by asking again.
func (r *restoredWorld) exact(s limit.State, cost uint64, v limit.Verdict) {
	at := r.now + limit.Time(v.RetryAfter)
	switch {
	case v.RetryAfter == limit.Never && limit.Peek(r.l, s, cost, limit.MaxTime/2).Allowed:
		r.fail("%d are admitted in the end", cost)
	case v.RetryAfter != limit.Never &&
		(!limit.Peek(r.l, s, cost, at).Allowed || limit.Peek(r.l, s, cost, at-1).Allowed):
		r.fail("retry after %d is not the first instant that admits %d", v.RetryAfter, cost)
	}
}

// TestAfterItsInstantFullIsFresh: a mark ends, and then the key is one that was never seen.
func TestAfterItsInstantFullIsFresh(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		l := randomLimit(rng, limit.FixedWindow+limit.Algorithm(rng.IntN(int(limit.Concurrency))))
		f := limit.Full{At: limit.Time(rng.Int64N(1 << 51)), Hold: limit.Span(1 + rng.Int64N(1<<40))}
		end := limit.ForgetAt(l, f.With(l, limit.State{}))
		if end > limit.MaxTime {
			continue // a rate that needs centuries
		}
		if l.Algorithm == limit.Lifetime || l.Algorithm == limit.Unlimited {
			if end != 0 {
				t.Fatalf("%+v is full until %d", l, end)
			}
			continue
		}
		if s := f.State(l, end); !reflect.DeepEqual(s, limit.State{}) {
			t.Fatalf("%+v of %+v at its end %d: %+v", f, l, end, s)
		}
		s := f.State(l, f.At)
		if v := limit.Peek(l, s, 1, f.At); v.Allowed || v.Remaining != 0 {
			t.Fatalf("%+v of %+v admits at once: %+v", f, l, v)
		}
		if s = f.State(l, end-1); limit.ForgetAt(l, s) != end {
			t.Fatalf("%+v of %+v: %+v ends at %d before its end %d", f, l, s, limit.ForgetAt(l, s), end)
		}
	}
}

// TestATierDoesNotHideWhatIsNotKnown: two limits take turns, as when a caller names one tier and then another. No
// window admits more than its own quota under its own numbers, whatever was counted under the other ones. (Buckets that
// change their numbers are not that exact even without a restore: what comes back under one rate has come back.)
func TestATierDoesNotHideWhatIsNotKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	admitted := 0
	for range 3000 {
		a := limit.FixedWindow + limit.Algorithm(rng.IntN(int(limit.SlidingLog)))
		l, m := randomLimit(rng, a), randomLimit(rng, a)
		m.Period, m.Bucket = l.Period, l.Bucket
		if l.Validate() != nil || m.Validate() != nil || l == m {
			continue
		}
		f := limit.Full{At: limit.Time(rng.Int64N(1 << 51))}
		twins := map[limit.Limit]*Model{l: New(l), m: New(m)}
		twins[l].memory.count(l.Quota, f.At) // what was lost may have been either
		twins[m].memory.count(m.Quota, f.At)
		now, current, state := f.At, l, f.State(l, f.At)
		stored := false
		for range 30 {
			now += limit.Time(rng.Int64N(int64(l.Period)/4 + 2))
			next := []limit.Limit{l, m}[rng.IntN(2)]
			s := f.State(next, now)
			if stored && next != current {
				s = f.Atop(next, limit.Convert(current, state, next, now), now)
			} else if stored {
				s = state
			}
			cost := 1 + rng.Uint64N(min(next.Quota, limit.MaxCost)/2+1)
			after, v := limit.Take(next, s, cost, now)
			if !v.Allowed {
				continue
			}
			admitted++
			if !twins[next].Admits(cost, now) {
				t.Fatalf("%+v admits %d at %d of %+v, and has %v used",
					next, cost, now, f, twins[next].memory.used(now))
			}
			for _, twin := range twins {
				twin.memory.count(cost, now)
			}
			state, current, stored = after, next, true
		}
	}
	if admitted < 1000 {
		t.Errorf("%d were admitted", admitted)
	}
}
