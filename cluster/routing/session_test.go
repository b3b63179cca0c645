package routing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

func TestNumbersAreConsecutiveAndAckedFollowsWhatIsFinished(t *testing.T) {
	var d sessionPool
	d.current = &session{name: shard.Session{Epoch: 1}}
	take := func(count uint64) sessionRange {
		t.Helper()
		got, _, _, err := d.take(count)
		if err != nil || got.session == nil {
			t.Fatalf("take(%d) = %+v, %v", count, got, err)
		}
		return got
	}
	a, b, c := take(1), take(100), take(1)
	if a.first != 1 || b.first != 2 || c.first != 102 || c.acked != 0 {
		t.Fatalf("ranges are %+v, %+v, %+v", a, b, c)
	}
	b.finish()
	if got := take(1); got.acked != 0 {
		t.Errorf("acked is %d while the first is under way", got.acked)
	}
	a.finish()
	if got := take(1); got.acked != 101 {
		t.Errorf("acked is %d, want 101", got.acked)
	}
	c.finish()
	for i := range uint64(3 * maxWindow) { // wraps around the window
		next := take(1)
		if next.acked != 102 {
			t.Fatalf("acked is %d after %d more", next.acked, i)
		}
		next.finish()
		if i == maxWindow/4 {
			break
		}
	}
}

func TestAFinishedWindowIsUsedAgainAndAgain(t *testing.T) {
	var d sessionPool
	d.current = &session{name: shard.Session{Epoch: 1}}
	var held []sessionRange
	for i := range uint64(5 * maxWindow / 100) {
		got, _, _, err := d.take(100)
		if err != nil || got.session != d.current || got.first != 100*i+1 {
			t.Fatalf("range %d is %+v, %v", i, got, err)
		}
		if held = append(held, got); len(held) == 100 {
			for j := range held { // out of order
				held[(j*37)%100].finish()
			}
			held = held[:0]
			if above := d.current.advance(); above != 0 || d.current.acked != d.current.last {
				t.Fatalf("%d numbers are left when all are finished", above)
			}
		}
	}
}

// A stuck request must neither block the others nor take all of the shard's memory.
func TestAStuckRequestMakesTheOthersRollOverAndNotForEver(t *testing.T) {
	var d sessionPool
	opened := uint64(0)
	// fill takes numbers until the session changes; the first never ends.
	fill := func() (n uint64, err *shard.Error) {
		before := d.current
		for ; d.current == before; n++ {
			got, o, opener, err := d.take(1)
			switch {
			case err != nil:
				return n, err
			case opener:
				opened++
				d.opened(o, shard.Session{Epoch: 1, Seq: opened}, nil)
			case got.first > 1:
				got.finish()
			}
		}
		return n, nil
	}
	fill() // the first session
	for i := range maxSessions - 1 {
		n, err := fill()
		if err != nil || n < rollWindow || n > rollWindow+2 {
			t.Fatalf("session %d held %d numbers, %v", i+1, n, err)
		}
	}
	n, err := fill()
	if err == nil || err.Code != shard.Overloaded || n != maxWindow || opened != maxSessions {
		t.Fatalf("the last of %d sessions held %d numbers, and then %v", opened, n, err)
	}
	d.retired[0].finish(1, 1) // a stuck request ends: there is room for a session again
	if _, err := fill(); err != nil || len(d.retired) != maxSessions-1 {
		t.Errorf("after the first ended: %v, %d retired", err, len(d.retired))
	}
}

func TestWhileANewSessionIsOpenedTheOldOneGoesOn(t *testing.T) {
	var d sessionPool
	d.current = &session{name: shard.Session{Epoch: 1}, last: rollWindow + 1}
	_, o, opener, _ := d.take(1)
	if !opener {
		t.Fatal("nobody opens a session")
	}
	got, wait, _, err := d.take(1)
	if err != nil || wait != nil || got.first != rollWindow+2 {
		t.Errorf("meanwhile: %+v, wait %v, %v", got, wait, err)
	}
	d.opened(o, shard.Session{Epoch: 2}, nil)
	if got, _, _, _ := d.take(1); got.first != 1 || got.session.name.Epoch != 2 {
		t.Errorf("then: %+v", got)
	}
}

func TestManyAtFirstContactShareOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		w.before = func(string, *shard.Request) *shard.Error { time.Sleep(time.Millisecond); return nil }
		var callers sync.WaitGroup
		for range 500 {
			callers.Go(func() { wantAllowed(t, "first contact", []shard.Result{w.nodes["n1"].ask(t, "k")}) })
		}
		callers.Wait()
		if w.opened != 1 {
			t.Errorf("%d sessions were opened", w.opened)
		}
		wantCounted(t, w, "k", 500)
		numbers := map[uint64]bool{}
		for _, r := range w.applied {
			if r.Op == shard.Check {
				numbers[r.Number] = true
			}
		}
		if len(numbers) != 500 || numbers[0] || numbers[501] {
			t.Errorf("%d numbers were given, want 1 to 500", len(numbers))
		}
	})
}

func TestAnImpatientOpenerIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		w.before = func(string, *shard.Request) *shard.Error { time.Sleep(100 * time.Millisecond); return nil }
		var callers sync.WaitGroup
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			wantCode(t, "impatient", w.nodes["n1"].Decide(ctx, []shard.Request{check("k")}), shard.Unavailable)
		})
		synctest.Wait()
		callers.Go(func() { wantAllowed(t, "patient", []shard.Result{w.nodes["n1"].ask(t, "l")}) })
		callers.Wait()
		wantCounted(t, w, "k", 0)
		wantCounted(t, w, "l", 1)
	})
}

func TestWhoeverWaitsForASessionHearsWhyThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		tries := 0
		w.before = func(string, *shard.Request) *shard.Error {
			tries++
			time.Sleep(100 * time.Millisecond)
			return failure(shard.Overloaded)
		}
		var callers sync.WaitGroup
		begin := time.Now()
		for range 100 {
			callers.Go(func() { wantCode(t, "shared", []shard.Result{w.nodes["n1"].ask(t, "k")}, shard.Overloaded) })
		}
		callers.Wait()
		if took := time.Since(begin); tries != 1 || took != 100*time.Millisecond {
			t.Errorf("%d tries took %v", tries, took)
		}
	})
}

func TestASessionThatIsGoneIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		n1 := w.nodes["n1"]
		wantAllowed(t, "at first", []shard.Result{n1.ask(t, "k")})
		w.forget()
		begin := time.Now()
		many := []shard.Request{check("k"), check("k"), check("k")}
		wantAllowed(t, "forgotten", n1.Decide(t.Context(), many))
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
		wantCounted(t, w, "k", 4)
		if many[0].Number != 0 || many[0].Session != (shard.Session{}) {
			t.Errorf("the caller's request was changed: %+v", many[0])
		}
		if w.opened != 2 {
			t.Errorf("%d sessions were opened, want 2", w.opened)
		}
	})
}

// The first copy may have been counted before its session was forgotten: only an id can tell.
func TestASessionThatIsGoneAfterAnUnknownOutcome(t *testing.T) {
	for _, id := range []string{"", "x"} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 2)
			w.move("n2", "n1")
			fail := true
			w.after = func(_ string, r *shard.Request) *shard.Error {
				if fail && r.Op == shard.Check {
					fail = false
					w.forget()
					return failure(shard.UnknownOutcome)
				}
				return nil
			}
			request := check("k")
			request.ID = id
			results := w.nodes["n1"].Decide(t.Context(), []shard.Request{request})
			if id == "" {
				wantCode(t, "without an id", results, shard.UnknownOutcome)
			} else {
				wantAllowed(t, "with an id", results)
			}
			wantCounted(t, w, "k", 1)
		})
	}
}

func TestReadsTravelWithoutNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		get := check("k")
		get.Op = shard.Get
		wantAllowed(t, "a read", w.nodes["n1"].Decide(t.Context(), []shard.Request{get}))
		wantAllowed(t, "among others", w.nodes["n1"].Decide(t.Context(), []shard.Request{check("k"), get, check("k")}))
		for i, want := range []uint64{0, 0, 1, 0, 2} { // a read, the session, and three requests
			if got := w.applied[i].Number; got != want {
				t.Errorf("request %d has number %d, want %d", i, got, want)
			}
		}
	})
}
