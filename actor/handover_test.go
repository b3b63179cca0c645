package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// handOver calls Handover in a goroutine; the channel delivers its error.
func handOver(ctx context.Context, a *Actor, transfer func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- a.Handover(ctx, transfer) }()
	return ended
}

// Requests under way get their outcome, all others are refused without being counted, and only then the leadership
// moves.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		proposed := submit(t, a, take(""))
		synctest.Wait()
		queued := submit(t, a, take(""))
		synctest.Wait()
		var transferred time.Time
		ended := handOver(t.Context(), a, func() error {
			transferred = time.Now()
			if a.Open() {
				t.Error("an epoch is open while the leadership goes")
			}
			if result := one(t, a, take("")); result.Err != errHandingOver {
				t.Errorf("while the leadership goes: %+v", result)
			}
			r.leading.Store(false)
			return nil
		})
		if result := <-queued; result.Err != errHandingOver || result.Err.Code != shard.NotOwner {
			t.Fatalf("what queued: %+v", result)
		}
		began := time.Now()
		if result := one(t, a, take("")); result.Err != errHandingOver || time.Since(began) != 0 {
			t.Fatalf("what came after %v: %+v", time.Since(began), result)
		}
		time.Sleep(time.Second)
		mustWait(t, proposed, "its entry is under way")
		if !transferred.IsZero() {
			t.Fatal("the leadership went while an entry was under way")
		}
		release()
		mustSay(t, <-proposed, "allowed")
		if err := <-ended; err != nil || transferred.IsZero() {
			t.Fatalf("transferred at %v: %v", transferred, err)
		}
		time.Sleep(time.Minute)
		mustSay(t, one(t, a, take("")), notOwner)
		if opens, batches, _ := r.kinds(); opens != 1 || batches != 1 || a.Open() {
			t.Fatalf("%d epochs, %d batches, open is %v", opens, batches, a.Open())
		}
	})
}

// No other node takes the lead: the shard is served again, in a new epoch. Before that nothing is logged, not even
// adoptions and sum entries.
func TestHandoverThatFails(t *testing.T) {
	refused := errors.New("no other voter has caught up")
	for name, want := range map[string]error{"failed": refused, "nobody took it": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, known := newFakeReplica(), &knowledge{}
				known.set(1, 5)
				a := startActor(t, r, 0, func(c *Config) { c.Policies = known.Load })
				before := one(t, a, take("")).Decision.Position.Epoch
				err := a.Handover(t.Context(), func() error {
					entries := r.index
					known.set(2, 5)
					time.Sleep(time.Minute)
					if r.index != entries {
						t.Errorf("%d entries were logged meanwhile", r.index-entries)
					}
					return want
				})
				if err != want {
					t.Fatal(err)
				}
				began := time.Now()
				result := one(t, a, take(""))
				mustSay(t, result, "allowed")
				if result.Decision.Position.Epoch == before || time.Since(began) > 0 {
					t.Fatalf("decided in epoch %d after epoch %d, after %v",
						result.Decision.Position.Epoch, before, time.Since(began))
				}
			})
		})
	}
}

// If ctx ends before everything under way has its outcome, the leadership stays, and the shard is served again as soon
// as all outcomes are there.
func TestHandoverOutOfPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		proposed := submit(t, a, take("me"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := a.Handover(ctx, func() error { t.Error("the leadership went"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		waits := submit(t, a, take("me"))
		synctest.Wait()
		mustWait(t, waits, "the epoch is over and the next one cannot open")
		release()
		mustSay(t, <-proposed, "allowed")
		if result := <-waits; says(result) != "allowed" || !result.Decision.Replayed {
			t.Fatalf("%+v", result)
		}
	})
}

// Handovers wait for each other, until their contexts end.
func TestOneHandoverAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startActor(t, newFakeReplica(), 5, nil)
		under := 0
		transfer := func() error {
			if under++; under > 1 {
				t.Error("two at a time")
			}
			time.Sleep(time.Second)
			under--
			return nil
		}
		first, second := handOver(t.Context(), a, transfer), handOver(t.Context(), a, transfer)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.Handover(ctx, transfer); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := errors.Join(<-first, <-second); err != nil {
			t.Fatal(err)
		}
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// A handover that meets an epoch that is being opened waits for that, too.
func TestHandoverOfAnOpeningEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		release := r.holdWaits(t)
		a := startActor(t, r, 5, nil)
		synctest.Wait()
		called := false
		ended := handOver(t.Context(), a, func() error { called = true; return nil })
		time.Sleep(time.Second)
		if called {
			t.Fatal("the leadership went while an EpochOpen was under way")
		}
		release()
		if err := <-ended; err != nil || !called {
			t.Fatal(called, err)
		}
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// Close ends a handover that waits, lets one that transfers end, and refuses later ones.
func TestCloseDuringAHandover(t *testing.T) {
	t.Run("that waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeReplica()
			a := startActor(t, r, 5, nil)
			synctest.Wait()
			release := r.holdWaits(t)
			proposed := submit(t, a, take(""))
			synctest.Wait()
			ended := handOver(t.Context(), a, func() error { return nil })
			synctest.Wait()
			time.AfterFunc(time.Second, release)
			a.Close(t.Context())
			mustSay(t, <-proposed, "allowed")
			if err := <-ended; err != nil && err != errDraining {
				t.Fatal(err)
			}
			if err := a.Handover(t.Context(), func() error { return nil }); err != errDraining {
				t.Fatal(err)
			}
		})
	})
	t.Run("that transfers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := startActor(t, newFakeReplica(), 5, nil)
			synctest.Wait()
			ended := handOver(t.Context(), a, func() error { time.Sleep(time.Minute); return nil })
			synctest.Wait()
			began := time.Now()
			a.Close(t.Context())
			if time.Since(began) != 0 || a.Open() {
				t.Fatalf("closed after %v, open is %v", time.Since(began), a.Open())
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		})
	})
}
