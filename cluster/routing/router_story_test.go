package routing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// ask has one request for a key decided within two seconds.
func (n *townNode) ask(t *testing.T, key string) shard.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return n.Decide(ctx, []shard.Request{check(key)})[0]
}

func wantWhom(t *testing.T, w *town, want string) {
	t.Helper()
	if got := w.whom(); got != want {
		t.Errorf("asked were %q, want %q", got, want)
	}
}

func wantCounted(t *testing.T, w *town, key string, want int) {
	t.Helper()
	if got := w.counted(key); got != want {
		t.Errorf("%q was counted %d times, want %d", key, got, want)
	}
}

func TestTheOwnerIsSoughtWhereItMostLikelyIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 5)
		n1 := w.nodes["n1"]
		w.move("n5")
		wantAllowed(t, "by the table", []shard.Result{n1.ask(t, "k")})
		w.whom()
		w.leads("n1", "n3") // wrong, like the hint
		n1.hints.Merge(gossip.Hint{Epoch: 100, Node: "n4"})
		n1.routeTo(0).turn.Store(0)
		wantAllowed(t, "with wrong evidence", []shard.Result{n1.ask(t, "k")})
		wantWhom(t, w, "n3 n4 n2 n5")
		if _, ok := n1.hints.Lookup(0); ok {
			t.Error("the wrong hint was kept")
		}
		w.leads("n1", "n5")
		wantAllowed(t, "by the leader", []shard.Result{n1.ask(t, "k")})
		wantWhom(t, w, "n5")
		w.move("n1")
		wantAllowed(t, "here", []shard.Result{n1.ask(t, "k")})
		wantWhom(t, w, "n1")
		wantCounted(t, w, "k", 4)
	})
}

func TestWhenTheOwnerMovesItsCallersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		w.move("n1", "n1")
		wantAllowed(t, "at first", []shard.Result{w.nodes["n1"].ask(t, "k")})
		release := make(chan struct{})
		w.before = func(node string, _ *shard.Request) *shard.Error {
			if node == "n1" {
				<-release // it is paused, and acts too late
			}
			return nil
		}
		var callers sync.WaitGroup
		begin := time.Now()
		for i := range 100 {
			callers.Go(func() {
				wantAllowed(t, "in mid-flight", []shard.Result{w.nodes["n1"].ask(t, fmt.Sprint("f", i))})
			})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		w.move("n2", "n1")
		callers.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("callers heard after %v, the new owner was known after 1 s", took)
		}
		close(release)
		for i := range 100 {
			wantCounted(t, w, fmt.Sprint("f", i), 1)
		}
	})
}

// The old owner returns with the requests that it had, when the new one has decided the copies.
func TestACopyThatComesLateCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		wantAllowed(t, "at first", []shard.Result{w.nodes["n1"].ask(t, "k")})
		w.allow(2)
		release := make(chan struct{})
		var held atomic.Int32
		w.before = func(string, *shard.Request) *shard.Error {
			if held.Add(1) <= 3 {
				<-release
			}
			return nil
		}
		var callers sync.WaitGroup
		var results [3]shard.Result
		for i := range results {
			callers.Go(func() { results[i] = w.nodes["n1"].ask(t, "k") })
		}
		synctest.Wait()
		w.move("n1") // the callers follow; one of three is admitted
		callers.Wait()
		close(release)
		w.move("n2")
		w.allow(100)
		w.late.Wait()
		allowed := 0
		for i := range results {
			if results[i].Err != nil {
				t.Errorf("caller %d: %v", i, results[i].Err)
			} else if results[i].Decision.Allowed {
				allowed++
			}
		}
		if allowed != 1 || w.counted("k") != 2 {
			t.Errorf("%d of the three were allowed; %d are counted, want 2 in all", allowed, w.counted("k"))
		}
	})
}

func TestAnUnknownOutcomeIsAskedAgainAndCountsOnce(t *testing.T) {
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 3)
			w.move("n2", "n1")
			broken := func(node string, r *shard.Request) *shard.Error {
				if node == "n2" && r.Op == shard.Check {
					w.move("n3") // n1 does not hear of it
					return failure(shard.UnknownOutcome)
				}
				return nil
			}
			if w.before = broken; applied {
				w.before, w.after = w.after, broken
			}
			answer := w.nodes["n1"].ask(t, "k")
			wantAllowed(t, name, []shard.Result{answer})
			if d := answer.Decision; d.Replayed || d.Index == 0 {
				t.Errorf("%s: the caller, who asked once, heard %+v", name, d)
			}
			wantCounted(t, w, "k", 1)
			last := w.applied[len(w.applied)-1]
			if !last.Retry || last.Number != 1 {
				t.Errorf("%s: the last copy was %+v", name, last)
			}
		})
	}
}

func TestWithoutSessionAndIDAnUnknownOutcomeIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		config := w.nodes["n1"].config
		config.Sessions = func(shard.ID) bool { return false }
		alone := New(config)
		w.move("n2", "n1")
		fails := 0
		w.after = func(string, *shard.Request) *shard.Error {
			if fails--; fails >= 0 {
				return failure(shard.UnknownOutcome)
			}
			return nil
		}
		with, get := check("id"), check("get")
		with.ID, get.Op = "x", shard.Get
		fails = 1
		wantCode(t, "neither", alone.Decide(t.Context(), []shard.Request{check("k")}), shard.UnknownOutcome)
		wantCounted(t, w, "k", 1)
		fails = 1
		wantAllowed(t, "an id", alone.Decide(t.Context(), []shard.Request{with}))
		wantCounted(t, w, "id", 1)
		fails = 1
		wantAllowed(t, "a read", alone.Decide(t.Context(), []shard.Request{get}))

		// Of several requests in one call, only those that may be repeated go on.
		fails = 3
		results := alone.Decide(t.Context(), []shard.Request{with, check("k"), get})
		wantAllowed(t, "an id among others", results[:1])
		wantCode(t, "neither among others", results[1:2], shard.UnknownOutcome)
		wantAllowed(t, "a read among others", results[2:])
		wantCounted(t, w, "k", 2)
	})
}

func TestWithoutAnOwnerTheCallerHearsSoAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		begin := time.Now()
		r := w.nodes["n1"].ask(t, "k")
		wantCode(t, "no owner", []shard.Result{r}, shard.Unavailable)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("it took %v, the deadline was 2 s away", took)
		}
		if want := "no owner of shard 0 was found before the deadline: node n2 does not own shard 0, after 1 hops, " +
			"node n3 does not own shard 0, after 1 hops; nothing was counted"; r.Err.Message != want {
			t.Errorf("the reason is %q", r.Err.Message)
		}
		if n := len(strings.Fields(w.whom())); n < 20 || n > 40 {
			t.Errorf("%d nodes were asked in 2 s", n)
		}
	})
}

// R20: callers that wait for an owner put no load on the remaining nodes.
func TestManyWhoWaitForAnOwnerAskOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		w.move("n2")
		wantAllowed(t, "at first", []shard.Result{w.nodes["n1"].ask(t, "k")})
		w.move("")
		wantCode(t, "the first who sees it", []shard.Result{w.nodes["n1"].ask(t, "k")}, shard.Unavailable)
		w.whom()
		begin := time.Now()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() { wantAllowed(t, "waited", []shard.Result{w.nodes["n1"].ask(t, "k")}) })
		}
		time.Sleep(time.Second)
		if n := len(strings.Fields(w.whom())); n < 8 || n > 2*int(time.Second/probeEvery)+2 {
			t.Errorf("1000 callers asked %d times in a second", n)
		}
		w.move("n3") // no node hears of it
		callers.Wait()
		// The longest pause, plus one turn to ask for the caller that finds the owner and one for the last caller that
		// hears of it.
		if took := time.Since(begin); took > time.Second+pauseMost+2*probeEvery {
			t.Errorf("they found the owner after %v, it was there after 1 s", took)
		}
	})
}

// One caller may not ask, because another one does. That one finds the owner, and only then the first goes to wait. All
// may ask when they come again.
func TestWhoAskedNobodyDoesNotSayThatThereIsNoOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTown(t, 3).nodes["n1"].Router
		w := &shardRoute{probed: time.Now()}
		w.lost.Store(true)
		e := &delivery{router: r, route: w, ctx: t.Context()}
		if target, ok := e.next(); ok {
			t.Fatalf("two ask at a time: %v", target)
		}
		w.found(false)
		e.pause()
		if w.lost.Load() {
			t.Error("the owner that was found is lost again")
		}
	})
}

func TestNewsWakeThoseWhoWait(t *testing.T) {
	for name, news := range map[string]func(w *town){
		"a hint":            func(w *town) { w.move("n2", "n1") },
		"our replica":       func(w *town) { w.move("n2"); w.leads("n1", "n2") },
		"the owner is here": func(w *town) { w.move("n1") },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 3)
			begin := time.Now()
			var caller sync.WaitGroup
			caller.Go(func() { wantAllowed(t, name, []shard.Result{w.nodes["n1"].ask(t, "k")}) })
			time.Sleep(1001 * time.Millisecond) // not at the time of its regular look
			synctest.Wait()
			news(w)
			caller.Wait()
			if took := time.Since(begin); took != 1001*time.Millisecond {
				t.Errorf("%s: it was decided after %v, the news came after 1.001 s", name, took)
			}
		})
	}
}

func TestABetterOwnerEndsAnAttemptThatHangs(t *testing.T) {
	for name, news := range map[string]func(w *town){
		"a hint":            func(w *town) { w.move("n3", "n1") },
		"our replica":       func(w *town) { w.move("n3"); w.leads("n1", "n3") },
		"the owner is here": func(w *town) { w.move("n1") },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 3)
			w.move("n2", "n1")
			release := make(chan struct{})
			defer close(release)
			w.after = func(node string, r *shard.Request) *shard.Error {
				if node == "n2" && r.Op == shard.Check {
					<-release
				}
				return nil
			}
			begin := time.Now()
			var callers sync.WaitGroup
			callers.Go(func() { wantAllowed(t, name, []shard.Result{w.nodes["n1"].ask(t, "k")}) })
			callers.Go(func() { // a request that must not be repeated waits for its answer
				config := w.nodes["n1"].config
				config.Sessions = func(shard.ID) bool { return false }
				config.Hints = gossip.NewHints(1)
				known, _ := w.nodes["n1"].hints.Lookup(0)
				config.Hints.Merge(known)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				alone := New(config)
				wantCode(t, "without a session", alone.Decide(ctx, []shard.Request{check("l")}), shard.UnknownOutcome)
				if took := time.Since(begin); took != 2*time.Second {
					t.Errorf("%s: without a session it ended after %v", name, took)
				}
			})
			time.Sleep(time.Second)
			news(w)
			synctest.Wait()
			if n := len(w.nodes["n1"].routeTo(0).attempts); n != 0 {
				t.Errorf("%s: %d attempts are still under way", name, n)
			}
			callers.Wait()
			wantCounted(t, w, "k", 1)
			wantCounted(t, w, "l", 1)
		})
	}
}

func TestOldNewsEndNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		w.epoch = 10
		w.move("n2", "n1")
		w.leads("n1", "n2")
		w.before = func(string, *shard.Request) *shard.Error { time.Sleep(700 * time.Millisecond); return nil }
		var caller sync.WaitGroup
		caller.Go(func() { wantAllowed(t, "undisturbed", []shard.Result{w.nodes["n1"].ask(t, "k")}) })
		time.Sleep(time.Second) // the session is open
		w.nodes["n1"].hints.Merge(gossip.Hint{Epoch: 9, Node: "n3"})
		w.nodes["n1"].hints.Merge(gossip.Hint{Epoch: 12, Node: "n2"})
		w.nodes["n1"].Wake()
		caller.Wait()
		wantCounted(t, w, "k", 1)
		if n := len(w.applied); n != 2 {
			t.Errorf("%d requests came to the owner, want the session and one", n)
		}
	})
}

func TestFinalFailuresAreNotAskedAgainAndTheOthersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2)
		w.move("n2", "n1")
		first := map[string]shard.Code{"over": shard.Overloaded, "invalid": shard.Invalid, "drain": shard.Draining,
			"away": shard.Unavailable, "stopped": shard.Unavailable}
		w.before = func(_ string, r *shard.Request) *shard.Error {
			if r.Op == shard.Check {
				if code := first[r.Entries[0].Key]; code != 0 {
					delete(first, r.Entries[0].Key)
					if r.Entries[0].Key == "stopped" {
						return &shard.Error{Code: code, RetryAfter: LongWait}
					}
					return failure(code)
				}
			}
			return nil
		}
		results := w.nodes["n1"].Decide(t.Context(), []shard.Request{check("ok"), check("over"), check("drain"),
			check("invalid"), check("away"), check("ok"), check("stopped")})
		wantAllowed(t, "allowed", results[:1])
		wantCode(t, "overloaded", results[1:2], shard.Overloaded)
		wantAllowed(t, "draining", results[2:3])
		wantCode(t, "invalid", results[3:4], shard.Invalid)
		wantAllowed(t, "unavailable", results[4:6])
		wantCode(t, "stopped", results[6:], shard.Unavailable)
		wantCounted(t, w, "ok", 2)
		wantCounted(t, w, "away", 1)
	})
}

// An error of a later copy says nothing about an earlier one.
func TestAfterAnUnknownOutcomeOnlyADecisionIsCertain(t *testing.T) {
	for _, then := range []shard.Code{shard.Invalid, shard.Overloaded, shard.NotOwner, shard.SessionGone} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 2)
			w.move("n2", "n1")
			tries := 0
			w.after = func(_ string, r *shard.Request) *shard.Error {
				if r.Op != shard.Check {
					return nil
				}
				if tries++; tries == 1 {
					return failure(shard.UnknownOutcome)
				}
				return failure(then)
			}
			wantCode(t, fmt.Sprint("then ", then), []shard.Result{w.nodes["n1"].ask(t, "k")}, shard.UnknownOutcome)
			wantCounted(t, w, "k", 1)
		})
	}
}

// A session knows all copies: if it reports that a hold has ended, that holds for the earlier copies too.
func TestInASessionAnEndedHoldIsCertain(t *testing.T) {
	for _, then := range []shard.Code{shard.HoldEnded, shard.OverQuota} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 2)
			w.move("n2", "n1")
			tries := 0
			w.before = func(_ string, r *shard.Request) *shard.Error {
				if r.Op != shard.Check {
					return nil
				}
				if tries++; tries == 1 {
					return failure(shard.UnknownOutcome)
				}
				return failure(then)
			}
			wantCode(t, fmt.Sprint("then ", then), []shard.Result{w.nodes["n1"].ask(t, "k")}, then)
			wantCounted(t, w, "k", 0)
		})
	}
}

// An id does not remember a denial: a later copy may be admitted. Only a session closes its number. So without a
// session, "no" is not reported for a request that may have a copy in flight, but "yes" is.
func TestWithoutASessionADenialSaysNothingOfAnEarlierCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		w.plain = true
		w.move("n2", "n1")
		w.allow(0)
		release := make(chan struct{})
		w.before = func(node string, _ *shard.Request) *shard.Error {
			if node == "n2" {
				<-release
			}
			return nil
		}
		request := check("k")
		request.ID = "x"
		heard := make(chan []shard.Result, 1)
		go func() { heard <- w.nodes["n1"].Decide(t.Context(), []shard.Request{request}) }()
		synctest.Wait()
		w.move("n3", "n1")
		wantCode(t, "denied, the first copy on its way", <-heard, shard.UnknownOutcome)
		w.move("n2")
		w.allow(1)
		close(release)
		w.late.Wait()
		wantCounted(t, w, "k", 1)

		w.allow(0)
		request.ID = "y"
		results := w.nodes["n1"].Decide(t.Context(), []shard.Request{request})
		if results[0].Err != nil || results[0].Decision.Allowed {
			t.Errorf("the only copy was denied, and its caller heard %+v", results[0])
		}
	})
}

func TestForwardedRequestsGoOnWhereTheEvidencePointsAndNeverInCircles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		w.move("n3", "n2")
		n2 := w.nodes["n2"]
		requests := []shard.Request{check("k")}
		wantAllowed(t, "by a hint", n2.Forwarded(t.Context(), 1, 0, requests))
		wantCode(t, "the last hop", n2.Forwarded(t.Context(), 2, 0, requests), shard.NotOwner)
		w.move("")
		wantCode(t, "a wrong hint", n2.Forwarded(t.Context(), 1, 0, requests), shard.NotOwner)
		if _, ok := n2.hints.Lookup(0); ok {
			t.Error("the wrong hint was kept")
		}
		w.whom()
		wantCode(t, "no evidence", n2.Forwarded(t.Context(), 1, 0, requests), shard.NotOwner)
		wantWhom(t, w, "")
		w.leads("n1", "n2")
		w.leads("n2", "n1")
		wantCode(t, "in circles", []shard.Result{w.nodes["n1"].ask(t, "k")}, shard.Unavailable)
		if w.hops != hop.MaxHops {
			t.Errorf("requests made %d hops", w.hops)
		}
	})
}

// The shard itself says which slots it has. What no node sends is refused, and a shard that only another node's table
// has is asked for again.
func TestForwardedRequestsThatNoNodeSendsAreRefused(t *testing.T) {
	router, _ := newRecorders(4)
	for name, c := range map[string]struct {
		id      shard.ID
		request shard.Request
	}{
		"a key of the system":     {shard.System, check("k")},
		"a document of no system": {1, shard.Request{Op: shard.Fetch, Document: "table"}},
	} {
		wantCode(t, name, router.Forwarded(t.Context(), 1, c.id, []shard.Request{c.request}), shard.Invalid)
	}
	wantCode(t, "of a newer table", router.Forwarded(t.Context(), 1, 4, []shard.Request{check("k")}), shard.Unavailable)
	wantAllowed(t, "a check", router.Forwarded(t.Context(), 1, 1, []shard.Request{check("k")}))
	wantCode(t, "submitted", router.Submit(t.Context(), 4, []shard.Request{check("k")}), shard.Invalid)
}

func TestRequestsWaitForTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 1)
		w.move("n1")
		config := w.nodes["n1"].config
		var shards uint32
		config.Slots = func() (*slot.Map, uint32) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if shards == 0 {
				return nil, 0
			}
			return slot.Even(shards), shards
		}
		r := New(config)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, "unknown", r.Decide(ctx, []shard.Request{check("k"), check("l")}), shard.Unavailable)
		wantCode(t, "forwarded", r.Forwarded(t.Context(), 1, 0, []shard.Request{check("k")}), shard.Unavailable)
		documents := []shard.Request{{Op: shard.Fetch, Document: "table"}}
		wantAllowed(t, "a document", r.Submit(t.Context(), shard.System, documents))
		var caller sync.WaitGroup
		begin := time.Now()
		caller.Go(func() { wantAllowed(t, "waited", r.Decide(t.Context(), []shard.Request{check("k")})) })
		time.Sleep(1001 * time.Millisecond)
		w.mu.Lock()
		shards = 1
		w.mu.Unlock()
		r.Wake()
		caller.Wait()
		if took := time.Since(begin); took != 1001*time.Millisecond {
			t.Errorf("it was decided after %v, the table came after 1.001 s", took)
		}
	})
}
