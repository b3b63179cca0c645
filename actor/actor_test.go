package actor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

var (
	notOwner    = fmt.Sprint("not applied: ", shard.NotOwner)
	overload    = fmt.Sprint("not applied: ", shard.Overloaded)
	draining    = fmt.Sprint("not applied: ", shard.Draining)
	unavailable = fmt.Sprint("not applied: ", shard.Unavailable)
	noOutcome   = &shard.Error{Code: shard.UnknownOutcome, Message: "nobody knows"}
)

// Allowed, denied, read and replayed answers all wait for the commit of their own batch.
func TestGateHoldsEveryAnswerUntilItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1, nil)
		synctest.Wait()
		mustSay(t, one(t, a, take("first")), "allowed")
		for name, request := range map[string]shard.Request{
			"denied":   take(""),
			"replayed": take("first"),
			"read":     {Op: shard.Get, Namespace: "default", Entries: take("").Entries},
		} {
			release := r.holdWaits(t)
			_, before, _ := r.kinds()
			answer := submit(t, a, request)
			synctest.Wait()
			if _, batches, _ := r.kinds(); batches != before+1 {
				t.Fatalf("%s: %d entries were proposed", name, batches-before)
			}
			mustWait(t, answer, "the wait of its entry has not returned: "+name)
			release()
			if result := <-answer; result.Err != nil || result.Decision.Replayed != (name == "replayed") ||
				result.Decision.Allowed == (name == "denied") {
				t.Fatalf("%s: %+v", name, result)
			}
		}
	})
}

// While entries are under way, requests gather and go into the next batch together.
func TestRequestsGatherWhileEntriesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		answers := []<-chan shard.Result{submit(t, a, take(""))}
		synctest.Wait()
		for range 50 {
			answers = append(answers, submit(t, a, take("")))
		}
		synctest.Wait()
		release()
		for _, answer := range answers {
			mustSay(t, <-answer, "allowed")
		}
		if _, batches, _ := r.kinds(); batches != 2 {
			t.Fatalf("51 requests took %d entries, must take 2", batches)
		}
	})
}

// A call that is larger than a batch is decided in several batches, and answered in its own order.
func TestCallOfSeveralBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startActor(t, newFakeReplica(), 5, func(c *Config) { c.MaxBatch = 2 })
		results := a.Submit(t.Context(), []shard.Request{take(""), take(""), take(""), take(""), take(""), take("")})
		for i, result := range results {
			want := "allowed"
			if i == 5 {
				want = "denied"
			}
			mustSay(t, result, want)
			if used := result.Decision.Limits[0].Used; used != uint64(min(i+1, 5)) {
				t.Fatalf("request %d: used is %d", i, used)
			}
		}
	})
}

func TestNoRequestsNoResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startActor(t, newFakeReplica(), 5, nil)
		if results := a.Submit(t.Context(), nil); len(results) != 0 {
			t.Fatal(results)
		}
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// Close lets all calls submitted before it end, and refuses new ones.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		var answers []<-chan shard.Result
		for range 3 {
			answers = append(answers, submit(t, a, take("")))
			synctest.Wait()
		}
		closed := make(chan struct{})
		go func() {
			a.Close(context.Background())
			close(closed)
		}()
		synctest.Wait()
		mustSay(t, one(t, a, take("")), draining)
		release()
		for _, answer := range answers {
			mustSay(t, <-answer, "allowed")
		}
		<-closed
		mustSay(t, one(t, a, take("")), draining)
		if a.Open() {
			t.Fatal("a closed actor says that it is open")
		}
	})
}

// When the context of Close ends, queued requests were not applied; requests under way still get their own outcome.
func TestCloseWithoutPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		r.next(fakeFate{err: noOutcome})
		proposed := submit(t, a, take(""))
		synctest.Wait()
		queued := submit(t, a, take(""))
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		closed := make(chan struct{})
		go func() {
			a.Close(ended)
			close(closed)
		}()
		mustSay(t, <-queued, draining)
		synctest.Wait()
		mustWait(t, proposed, "its entry is under way")
		release()
		mustSay(t, <-proposed, "unknown")
		<-closed
	})
}

// A full mailbox refuses at once and says that nothing was counted; it never denies.
func TestFullMailboxRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 4, func(c *Config) { c.MaxQueued = 4 })
		synctest.Wait()
		release := r.holdWaits(t)
		var answers []<-chan shard.Result
		for range 4 {
			answers = append(answers, submit(t, a, take("")))
		}
		synctest.Wait()
		for range 10 {
			mustSay(t, one(t, a, take("")), overload)
		}
		mustSay(t, a.Submit(t.Context(), make([]shard.Request, 5))[4], overload)
		release()
		for _, answer := range answers {
			mustSay(t, <-answer, "allowed")
		}
		mustSay(t, one(t, a, take("")), "denied")
	})
}

// The deadline passes before the request was begun: certainly not counted.
func TestDeadlineOfAQueuedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		r.neverOpens()
		a := startActor(t, r, 1, func(c *Config) { c.OpenWithin = time.Hour })
		mustSay(t, within(t, a, 50*time.Millisecond, take("")), unavailable)
		r.next()
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// The deadline passes while the entry is under way: the outcome is unknown, and a retry with the same id reveals it.
func TestDeadlineOfAProposedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		mustSay(t, within(t, a, 50*time.Millisecond, take("me")), "unknown")
		release()
		result := one(t, a, take("me"))
		mustSay(t, result, "allowed")
		if !result.Decision.Replayed {
			t.Fatal("decided again")
		}
	})
}

// A request with less time than a commit takes is not worth an entry. One stall does not count against all later
// requests.
func TestDeadlineNearerThanACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, func(c *Config) { c.IdleSum = time.Hour })
		synctest.Wait()
		release := r.holdWaits(t)
		slow := submit(t, a, take(""))
		time.AfterFunc(8*time.Second, release)
		mustSay(t, <-slow, "allowed")
		var said []string
		for range 100 {
			said = append(said, says(within(t, a, 300*time.Millisecond, take(""))))
		}
		if said[0] != overload || said[99] != "allowed" {
			t.Fatalf("first %s, last %s", said[0], said[99])
		}
	})
}

// For each way in which a proposal can fail, the waiting callers get its true outcome, the epoch ends, and the next one
// continues the count.
func TestFailedProposalEndsTheEpoch(t *testing.T) {
	for name, tt := range map[string]struct {
		fate        fakeFate
		says, after string // of the same id asked again: was it counted?
	}{
		"refused":              {fakeFate{lost: true, err: errNotOwner}, notOwner, "new"},
		"unknown, and lost":    {fakeFate{lost: true, err: noOutcome}, "unknown", "new"},
		"unknown, and counted": {fakeFate{err: noOutcome}, "unknown", "replayed"},
		"an error of no kind":  {fakeFate{err: errors.New("disk on fire")}, "unknown", "replayed"},
		"another's outcome":    {fakeFate{lost: true}, "unknown", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeReplica()
				a := startActor(t, r, 2, nil)
				synctest.Wait()
				release := r.holdWaits(t)
				r.next(tt.fate)
				failed := submit(t, a, take("me"))
				synctest.Wait()
				behind := submit(t, a, take("behind")) // it waits until the first is known to have failed
				synctest.Wait()
				mustWait(t, behind, "an entry is under way")
				release()
				mustSay(t, <-failed, tt.says)
				mustSay(t, <-behind, "allowed")
				result := one(t, a, take("me"))
				mustSay(t, result, "allowed")
				if result.Decision.Replayed != (tt.after == "replayed") {
					t.Fatalf("replayed is %v", result.Decision.Replayed)
				}
				mustSay(t, one(t, a, take("behind")), "allowed")
				mustSay(t, one(t, a, take("third")), "denied")
				if opens, _, _ := r.kinds(); opens != 2 {
					t.Fatalf("%d epochs, must be two", opens)
				}
			})
		})
	}
}

// Requests that were begun but did not fit into the entry of their batch are answered, too, when the epoch ends.
func TestEpochEndsWhileABatchIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1, nil)
		synctest.Wait()
		release := r.holdWaits(t)
		r.next(fakeFate{}, fakeFate{lost: true, err: errNotOwner})
		first := submit(t, a, take(""))
		synctest.Wait()
		var answers []<-chan shard.Result
		for i := range 1000 { // together more than one entry holds; each is a call of its own
			request := take("")
			request.Entries[0].Key = fmt.Sprint(i, strings.Repeat("k", 500))
			answers = append(answers, submit(t, a, request))
		}
		synctest.Wait()
		r.leading.Store(false)
		release()
		mustSay(t, <-first, "allowed")
		for _, answer := range answers {
			mustSay(t, <-answer, notOwner)
		}
	})
}

// A foreign EpochOpen ends this node's epoch before another request is decided in it.
func TestForeignEpochOpenClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 2, nil)
		mustSay(t, one(t, a, take("")), "allowed")
		foreign := r.openForeign()
		_, before, _ := r.kinds()
		r.leading.Store(false)
		mustSay(t, one(t, a, take("")), notOwner)
		if _, after, _ := r.kinds(); after != before || a.Open() {
			t.Fatalf("%d batches were proposed in an epoch that is over; open is %v", after-before, a.Open())
		}
		r.leading.Store(true)
		result := one(t, a, take(""))
		mustSay(t, result, "allowed")
		if got := result.Decision.Position.Epoch; got <= foreign {
			t.Fatalf("decided in epoch %d after epoch %d", got, foreign)
		}
	})
}

// Requests wait for an epoch as long as this node may get one, and no longer.
func TestRequestsWaitForAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		r.next(fakeFate{lost: true, err: noOutcome}, fakeFate{lost: true, err: noOutcome})
		a := startActor(t, r, 5, nil)
		mustSay(t, one(t, a, take("")), "allowed") // two openings fail, the third does not
		r.openForeign()
		r.leading.Store(false)
		began := time.Now()
		mustSay(t, one(t, a, take("")), notOwner)
		if took := time.Since(began); took > 0 {
			t.Fatalf("a node that does not lead kept a request for %v", took)
		}
		r.neverOpens()
		r.leading.Store(true)
		began = time.Now()
		mustSay(t, one(t, a, take("")), unavailable)
		if took := time.Since(began); took > 1600*time.Millisecond {
			t.Fatalf("a leader that cannot open kept a request for %v", took)
		}
	})
}

func TestHintOpensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		r.leading.Store(false)
		a := startActor(t, r, 5, nil)
		synctest.Wait()
		r.leading.Store(true)
		began := time.Now()
		a.Hint()
		synctest.Wait()
		if !a.Open() || time.Since(began) != 0 {
			t.Fatalf("open is %v after %v", a.Open(), time.Since(began))
		}
	})
}

// A clock more than 24 h past the last stamp is left to the operator's judgment: a wrong one would end every window at
// once.
func TestStepOfMoreThanADay(t *testing.T) {
	for _, accept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeReplica()
			last := limit.Time(time.Now().UnixMicro())
			r.install(shard.EncodeEpochOpen(0, last, shard.LevelNewest))
			time.Sleep(25 * time.Hour) // of virtual time: the node was off
			var steps atomic.Int32
			a := startActor(t, r, 5, func(c *Config) {
				c.AcceptStep = accept
				c.Observer.TimeStep = func(l, now limit.Time) {
					if l != last || now-l < maxStep {
						t.Errorf("told of a step from %d to %d", l, now)
					}
					steps.Add(1)
				}
			})
			result := one(t, a, take(""))
			if accept {
				mustSay(t, result, "allowed")
			} else {
				mustSay(t, result, unavailable)
			}
			if accept != (steps.Load() == 0) {
				t.Fatalf("accepted is %v, told %d times", accept, steps.Load())
			}
		})
	}
}

// A defect makes only the request that met it fail. The actor continues in the same epoch, and reports it to the
// observer.
func TestADefectFailsOneRequestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, set := newFakeReplica(), policy.NewSet([]*policy.Policy{
			{Name: "p", Retention: policy.DefaultRetention, Limits: []policy.Limit{{Name: "all", Limit: limit.Limit{
				Algorithm: limit.Lifetime, Quota: 5}}}},
			{Name: "broken", Retention: policy.DefaultRetention,
				Limits: []policy.Limit{{Name: "all", Limit: limit.Limit{
					// no time zone: no file can express that
					Algorithm: limit.Calendar, Quota: 5, Cycle: &limit.Cycle{}}}}}})
		var told []*shard.Error
		a := startActor(t, r, 0, func(c *Config) {
			c.Policies = func() *policy.Revision {
				return &policy.Revision{Version: 1, Text: lifetimeText(5), Set: set}
			}
			c.Observer.Fault = func(met *shard.Error) { told = append(told, met) }
		})
		synctest.Wait()
		epoch := a.Epoch()
		bad := take("")
		bad.Entries = []shard.Entry{{Policy: "broken", Key: "k", Cost: 1}}
		results := a.Submit(t.Context(), []shard.Request{take(""), bad, take(""), bad, take("")})
		for i, result := range results {
			if fails := i%2 == 1; fails != (result.Err != nil) || fails && result.Err.Code != shard.Fault {
				t.Errorf("%d: %+v", i, result)
			}
		}
		if used := results[4].Decision.Limits[0].Used; used != 3 || a.Epoch() != epoch || !a.Open() {
			t.Errorf("%d were counted; epoch %d, before %d", used, a.Epoch(), epoch)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(told) != 1 || told[0].Code != shard.Fault {
			t.Errorf("told of %v", told)
		}
	})
}

func TestSumEntriesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1000, func(c *Config) { c.SumEvery = 10 })
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if _, batches, sums := r.kinds(); batches != 0 || sums != 2 {
			t.Fatalf("%d batches and %d sum entries in 25 s without a request, must be 0 and 2", batches, sums)
		}
		for range 35 {
			one(t, a, take(""))
		}
		if _, batches, sums := r.kinds(); batches != 35 || sums != 5 {
			t.Fatalf("%d batches and %d sum entries, must be 35 and 5", batches, sums)
		}
	})
}

// There are many concurrent callers, a log that fails now and then, and every unknown outcome is retried with its id.
// Exactly the limit is admitted.
func TestManySubmittersAdmitExactlyTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota, submitters, each = 700, 32, 50
		r := newFakeReplica()
		a := Start(0, r, Config{Policies: revision(1, quota), OpenEvery: time.Millisecond})
		defer a.Close(context.Background())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var admitted, denied atomic.Int64
		var callers sync.WaitGroup
		for n := range submitters {
			callers.Go(func() {
				for i := range each {
					if n == 0 && i%10 == 0 {
						r.next(fakeFate{}, fakeFate{err: noOutcome}, fakeFate{lost: true, err: noOutcome})
					}
					for result := (shard.Result{Err: noOutcome}); result.Err != nil && ctx.Err() == nil; {
						result = a.Submit(ctx, []shard.Request{take(fmt.Sprint(n, "-", i))})[0]
						if says(result) == "allowed" {
							admitted.Add(1)
						} else if says(result) == "denied" {
							denied.Add(1)
						}
					}
				}
			})
		}
		callers.Wait()
		if admitted.Load() != quota || denied.Load() != submitters*each-quota {
			t.Fatalf("admitted %d, denied %d of %d with a limit of %d",
				admitted.Load(), denied.Load(), submitters*each, quota)
		}
	})
}

// Many records that have ended are swept by one sum entry for each tick, as long as there are many and no request
// waits.
func TestAnIdleShardForgetsWhatHasEndedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		now := limit.Time(time.Now().UnixMicro())
		epoch := r.install(shard.EncodeEpochOpen(0, now, shard.LevelNewest)).Epoch
		puts := make([]shard.Put, 40_000)
		for i := range puts {
			puts[i] = shard.Put{Key: fmt.Sprint("key ", i), Record: shard.Record{Value: []byte{1}, ForgetAt: now + 2e6}}
		}
		r.install(shard.EncodeBatch(shard.Stamp{Position: shard.Position{Shard: 0, Epoch: epoch, Seq: 1}, Now: now},
			puts))
		startActor(t, r, 1000, nil)
		records := func() (n int) {
			r.View(func(state *shard.State) { n = state.Records() })
			return n
		}
		time.Sleep(5 * time.Second)
		if got, want := records(), len(puts); got < want {
			t.Fatalf("%d of %d records are left before the first sum entry", got, want)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if got := records(); got > 1000 {
			t.Errorf("%d of %d records are left 3 s after the first sum entry", got, len(puts))
		}
		_, _, sums := r.kinds()
		if sums < 10 || sums > 12 {
			t.Errorf("%d sum entries, of which each sweeps 4,096 records", sums)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if _, _, after := r.kinds(); after-sums > 5 {
			t.Errorf("%d sum entries in 50 s although nothing has ended", after-sums)
		}
	})
}
