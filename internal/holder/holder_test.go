package holder

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// owner grants what it is asked for.
type owner struct {
	mu   sync.Mutex
	asks []Ask
}

func (o *owner) grant(_ context.Context, asks []Ask) []Grant[string] {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asks = append(o.asks, asks...)
	grants := make([]Grant[string], len(asks))
	for i, a := range asks {
		grants[i] = Grant[string]{Units: a.Units, Within: 1500 * time.Millisecond,
			Answer: fmt.Sprint("as of ", a.Number)}
	}
	return grants
}

// berth is a holder in a bubble, and its owner.
type berth struct {
	*Holder[string]
	owner
}

var terms = Terms{Units: 100, For: 2 * time.Second}

func inBerth(t *testing.T, test func(b *berth)) {
	synctest.Test(t, func(t *testing.T) {
		b, began := &berth{}, time.Now()
		b.Holder = New(Config[string]{Owner: b.grant, Terms: func(string) (Terms, bool) { return terms, true },
			Clock: func() Time { return Time{time.Since(began), time.Duration(time.Now().UnixNano())} }})
		test(b)
		b.Close()
		owed := map[uint64]bool{}
		for _, a := range b.asks {
			delete(owed, a.Returned)
			if a.Number != 0 {
				owed[a.Number] = true
			}
		}
		if len(owed) > 0 || b.Held() != 0 {
			t.Errorf("%v were not returned, %d are held", owed, b.Held())
		}
	})
}

func named(key string) Name { return Name{Namespace: "n", Policy: "p", Key: key} }

// moor gets a lease of a key.
func (b *berth) moor(key string) {
	for range 2 {
		b.Spend(named(key), 1, terms, true)
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
}

func TestALeaseIsSpentOnce(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		units, leased := b.asks[0].Units, uint64(0)
		s := b.stripe("k")
		s.mu.Lock() // the keeper waits
		for range 2 * units {
			if s.keys[named("k")].spend(1, 0, b.config.Clock()) {
				leased++
			}
		}
		s.mu.Unlock()
		if leased != units {
			t.Errorf("%d of %d were spent", leased, units)
		}
		synctest.Wait()
		if last := b.asks[1]; last.Returned != b.asks[0].Number || last.Spent != units {
			t.Errorf("returned by %+v", last)
		}
	})
}

// A check of another key, policy or tier is not the lease's, and one that does not count asks for none.
func TestALeaseIsOfItsName(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		for _, name := range []Name{{"n", "p", "l", "", false}, {"n", "q", "k", "", false}, {"m", "p", "k", "", false},
			{"n", "p", "k", "gold", false}, {"n", "p", "k", "", true}} {
			for range 3 {
				if _, _, spent := b.Spend(name, 1, terms, false); spent {
					t.Errorf("%+v was answered", name)
				}
			}
		}
		answer, age, spent := b.Spend(named("k"), 1, terms, false)
		if synctest.Wait(); !spent || answer != "as of 1" || age != time.Millisecond || b.Held() != 1 {
			t.Errorf("%q of %v ago, %v; %d are held", answer, age, spent, b.Held())
		}
	})
}

// A key that is forgotten is no longer in memory.
func TestAForgottenKeyIsInNoLease(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		b.Spend(named("asked for once"), 1, terms, true)
		for _, key := range []string{"k", "asked for once"} {
			b.End([]Name{{Namespace: "n", Key: key}})
		}
		synctest.Wait()
		for i := range b.stripes {
			if n := len(b.stripes[i].keys); n != 0 {
				t.Errorf("%d keys are known", n)
			}
		}
	})
}

func TestACheckAloneGetsNoLease(t *testing.T) {
	inBerth(t, func(b *berth) {
		for range 10 {
			b.Spend(named("k"), 50, terms, true)
			time.Sleep(time.Second)
		}
		if len(b.asks) != 0 {
			t.Errorf("the owner has heard %+v", b.asks)
		}
	})
}

func TestLeasesAreOfAFixedNumberOfKeys(t *testing.T) {
	inBerth(t, func(b *berth) {
		for i := range 2 * stripes * keysStripe {
			b.Spend(named(fmt.Sprint(i)), 1, terms, true)
			if i%2 == 0 {
				time.Sleep(time.Microsecond)
				b.Spend(named(fmt.Sprint(i)), 1, terms, true)
			}
		}
		synctest.Wait()
		for i := range b.stripes {
			if n := len(b.stripes[i].keys); n > keysStripe {
				t.Fatalf("%d keys in one stripe", n)
			}
		}
		if b.Held() == 0 {
			t.Error("there is no lease")
		}
	})
}

// Any number of goroutines spend one lease.
func BenchmarkOneHotKey(b *testing.B) {
	h := New(Config[*int]{
		Owner: func(_ context.Context, asks []Ask) []Grant[*int] {
			return []Grant[*int]{{Units: 1 << 40, Within: time.Second, Answer: new(int)}}
		},
		Terms: func(string) (Terms, bool) {
			return Terms{Units: 1 << 40, For: 2 * time.Second}, true
		}, Clock: MachineClock()})
	defer h.Close()
	name := named("k")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Spend(name, 1, Terms{Units: 1 << 40, For: 2 * time.Second}, true)
		}
	})
}
