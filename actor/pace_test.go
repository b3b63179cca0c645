package actor

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// busyReplica takes time to commit, as on an overloaded node.
type busyReplica struct {
	*fakeReplica
	takes atomic.Int64 // nanoseconds
}

func (r *busyReplica) Propose(payload []byte) func() (shard.Outcome, error) {
	wait := r.fakeReplica.Propose(payload)
	return func() (shard.Outcome, error) {
		time.Sleep(time.Duration(r.takes.Load()))
		return wait()
	}
}

// underLoad starts an actor, of an only voter or of one among others, on a node where a commit took idle before and
// takes busy now.
func underLoad(t *testing.T, others bool, idle, busy time.Duration) (*Actor, *busyReplica) {
	r := &busyReplica{fakeReplica: newFakeReplica()}
	r.takes.Store(int64(idle))
	a := startActor(t, r, 1_000_000, func(c *Config) {
		if others {
			c.Reference = func() (time.Duration, bool) { return 0, true }
		}
	})
	for range 50 {
		mustSay(t, one(t, a, take("")), "allowed")
	}
	r.takes.Store(int64(busy))
	askInTurns(t, a, 20, 50)
	return a, r
}

// askInTurns makes each caller ask one request after another, each soon after its previous answer.
func askInTurns(t *testing.T, a *Actor, callers, times int) {
	t.Helper()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range times {
				mustSay(t, one(t, a, take("")), "allowed")
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			}
		})
	}
	group.Wait()
}

// On an overloaded node, all callers that ask again at once share one entry; without a wait the first one back would
// get an entry of its own. Where other nodes write the entries too, less overload is enough for a wait.
func TestABatchWaitsForThoseWhoWereJustAnswered(t *testing.T) {
	for _, test := range []struct {
		others bool
		busy   time.Duration
	}{{false, 8 * time.Millisecond}, {true, 8 * time.Millisecond}, {true, 2 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			a, r := underLoad(t, test.others, time.Millisecond, test.busy)
			_, before, _ := r.kinds()
			began := time.Now()
			askInTurns(t, a, 20, 50)
			took := time.Since(began)
			_, after, _ := r.kinds()
			if mean := 1000 / float64(after-before); mean < 17 {
				t.Errorf("%+v: 1,000 requests of 20 callers came in %d entries: %.1f in each", test, after-before, mean)
			}
			if most := 60 * (test.busy + 300*time.Microsecond); took > most {
				t.Errorf("%+v: 50 rounds took %v", test, took)
			}
		})
	}
}

// Where commits take no longer than they must, no caller waits, however many there are.
func TestNobodyWaitsOnANodeThatIsNotSaturated(t *testing.T) {
	for others, busy := range map[bool]time.Duration{false: 9 * time.Millisecond, true: 6 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := underLoad(t, others, 5*time.Millisecond, busy)
			for range 100 {
				answered(t, a)
				began := time.Now()
				mustSay(t, one(t, a, take("")), "allowed")
				if took := time.Since(began); took != busy {
					t.Fatalf("a commit of %v, and the answer came after %v", busy, took)
				}
			}
		})
	}
}

// A single caller has no others to wait for, however slow the node is.
func TestACallerAloneNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := underLoad(t, true, time.Millisecond, 40*time.Millisecond)
		mustSay(t, one(t, a, take("")), "allowed")
		for range 100 {
			began := time.Now()
			mustSay(t, one(t, a, take("")), "allowed")
			if took := time.Since(began); took != 40*time.Millisecond {
				t.Fatalf("a commit of 40 ms, and the answer came after %v", took)
			}
		}
	})
}

// answered leaves an actor just after it has answered two requests of callers that do not ask again.
func answered(t *testing.T, a *Actor) {
	for _, result := range a.Submit(t.Context(), []shard.Request{take(""), take("")}) {
		mustSay(t, result, "allowed")
	}
	synctest.Wait()
}

// A caller that comes during a wait is held up for at most holdMost, and not at all once the others are no longer
// expected.
func TestAWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := underLoad(t, true, time.Millisecond, 100*time.Millisecond)
		for _, test := range []struct{ after, wait time.Duration }{
			{0, holdMost}, {4 * time.Millisecond, holdMost - 4*time.Millisecond}, {holdMost, 0}, {time.Minute, 0},
		} {
			answered(t, a)
			time.Sleep(test.after)
			began := time.Now()
			mustSay(t, one(t, a, take("")), "allowed")
			if waited := time.Since(began) - 100*time.Millisecond; waited != test.wait {
				t.Errorf("%v after the answers a request waited %v, must be %v", test.after, waited, test.wait)
			}
		}
	})
}

// A caller with little time does not wait for others, and neither do the callers that came before it.
func TestADeadlineEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := underLoad(t, true, time.Millisecond, 100*time.Millisecond)
		answered(t, a)
		before := submit(t, a, take(""))
		time.Sleep(time.Millisecond)
		began := time.Now()
		mustSay(t, within(t, a, 150*time.Millisecond, take("")), "allowed")
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("with 150 ms left, a commit of 100 ms was answered after %v", took)
		}
		mustSay(t, <-before, "allowed")
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("who came before was answered after %v", took)
		}
	})
}

// heldUp returns an actor that holds a caller up for others, and the channel of the caller's result. The caller's
// commit takes 100 ms.
func heldUp(t *testing.T) (*Actor, <-chan shard.Result) {
	a, _ := underLoad(t, true, time.Millisecond, 100*time.Millisecond)
	answered(t, a)
	waiting := submit(t, a, take(""))
	synctest.Wait()
	return a, waiting
}

// A stop and a handover do not wait until the wait is over.
func TestAStopEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, waiting := heldUp(t)
		began := time.Now()
		a.Close(context.Background())
		mustSay(t, <-waiting, "allowed")
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("the stop took %v, its last commit 100 ms", took)
		}
	})
}

func TestAHandoverEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, waiting := heldUp(t)
		began := time.Now()
		ended := handOver(t.Context(), a, func() error { return nil })
		if result := <-waiting; result.Err != errHandingOver || time.Since(began) != 0 {
			t.Errorf("after %v: %+v", time.Since(began), result)
		}
		if err := <-ended; err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The time of the shortest commit is forgotten after a while: a disk that was fast once must not make a slow one seem
// saturated forever.
func TestTheShortestCommitIsOneOfLate(t *testing.T) {
	var p pace
	at := time.Unix(1_800_000_000, 0)
	p.committed(time.Millisecond, time.Millisecond, 10, 10, at)
	for range 250 {
		at = at.Add(100 * time.Millisecond)
		p.committed(9*time.Millisecond, 9*time.Millisecond, 10, 10, at)
	}
	if p.bound != 0 {
		t.Errorf("commits have taken 9 ms for 25 s, and batches still wait %v", p.bound)
	}
	p.committed(9*time.Millisecond, 30*time.Millisecond, 10, 10, at)
	if p.bound != holdMost {
		t.Errorf("commits take 30 ms instead of 9, and batches wait %v", p.bound)
	}
}

// Requests that gather while an entry is under way do not wake the loop; all of them are in the next entry.
func TestTheIntakeWakesForWhatIsWanted(t *testing.T) {
	in := intake{wake: make(chan struct{}, 1)}
	put := func(n int, deadline time.Time) { in.put(&call{requests: make([]shard.Request, n), deadline: deadline}) }
	woken := func() bool {
		select {
		case <-in.wake:
			return true
		default:
			return false
		}
	}
	now := time.Now()
	in.expect(never, time.Time{})
	put(100, now)
	if woken() {
		t.Error("it wakes although nothing is wanted")
	}
	if calls := in.take(nil); len(calls) != 1 {
		t.Errorf("%d calls were taken", len(calls))
	}
	in.expect(3, now)
	put(2, now)
	put(0, time.Time{})
	if woken() {
		t.Error("it wakes for two requests of three, due in time")
	}
	put(1, now)
	if !woken() {
		t.Error("it does not wake for the third")
	}
	put(1, now)
	if woken() {
		t.Error("it wakes again for more")
	}
	put(1, now.Add(-1))
	if !woken() {
		t.Error("it does not wake for who is in a hurry")
	}
	in.expect(4, now)
	if !woken() {
		t.Error("it does not wake for what is there already")
	}
	if in.close() {
		t.Error("it closes over calls that nobody has taken")
	}
	in.take(nil)
	if !in.close() || in.put(&call{}) {
		t.Error("it takes more after its end")
	}
}

// A batch that is already large does not wait, however many callers were just answered; nor does a full one.
func TestALargeBatchWaitsForNobody(t *testing.T) {
	for maxBatch, enough := range map[int]int{4096: targetMost, 10: 10} {
		p, wall := newSequencer(1, Config{MaxBatch: maxBatch}).pace, time.Unix(0, 0)
		p.others = true
		p.committed(time.Millisecond, time.Millisecond, 1, 0, wall)
		p.committed(10*time.Millisecond, 10*time.Millisecond, 10*targetMost, 0, wall)
		if p.left(enough-1, time.Time{}, wall) <= 0 {
			t.Errorf("a batch of %d of at most %d does not wait", enough-1, maxBatch)
		}
		if left := p.left(enough, time.Time{}, wall); left > 0 {
			t.Errorf("a batch of %d of at most %d waits for %v", enough, maxBatch, left)
		}
	}
}
