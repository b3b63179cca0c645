package routing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const ms = limit.Span(1000)

// floodPolicies returns policies with and without a deny_cache, each with a lifetime quota of five units.
func floodPolicies() *policy.Set {
	var policies []*policy.Policy
	for name, denyCache := range map[string]limit.Span{"p": 250 * ms, "short": 100 * ms, "never": 0} {
		policies = append(policies, &policy.Policy{Name: name, Retention: policy.DefaultRetention, DenyCache: denyCache,
			Limits: []policy.Limit{{Name: "a",
				Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: 1000 * ms}}}})
	}
	return policy.NewSet(policies)
}

// flood is denials with their own clock, and an owner that denies all requests with a wait, or admits all.
type flood struct {
	*denials
	at       limit.Span
	takes    limit.Span // time until an answer
	wait     limit.Span // wait in each denial
	admits   bool
	revision policy.Revision
	asked    int // requests that reached the owner
	mu       sync.Mutex
}

func denialsUnder(policies func() *policy.Revision) *denials {
	config := Config{Policies: policies}
	config.setDefaults()
	return newDenials(&config)
}

// newFlood picks hashes that keep the keys of these tests apart: with one seed in a thousand, two of them share a
// change count, and freeing capacity on one ends the denials of both.
func newFlood() *flood {
	for {
		f := &flood{wait: limit.Never, revision: policy.Revision{Version: 1, Set: floodPolicies()}}
		f.denials = denialsUnder(func() *policy.Revision { return &f.revision })
		f.now = func() limit.Span { return f.at }
		stripes := map[*atomic.Uint64]bool{}
		counters := [][2]string{{"default", "k"}, {"default", "l"}, {"default", "new"}, {"other", "k"}}
		for _, c := range counters {
			stripes[f.stripe(f.hashOf(c[0], &shard.Entry{Policy: "p", Key: c[1]}))] = true
		}
		if len(stripes) == len(counters) {
			return f
		}
	}
}

func (f *flood) decide(requests []shard.Request) []shard.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked += len(requests)
	f.at += f.takes
	results := make([]shard.Result, len(requests))
	for i := range requests {
		d := &results[i].Decision
		if d.Allowed = f.admits; !d.Allowed {
			d.RetryAfter = f.wait
		}
		for _, e := range requests[i].Entries {
			d.Limits = append(d.Limits, shard.LimitStatus{Policy: e.Policy, Key: e.Key, Limit: "a",
				Verdict: limit.Verdict{RetryAfter: d.RetryAfter}})
		}
	}
	return results
}

// ask has requests answered and returns how many of them reached the owner.
func (f *flood) ask(requests ...shard.Request) (results []shard.Result, asked int) {
	before := f.asked
	results = f.wrap(requests, f.decide)
	return results, f.asked - before
}

func (f *flood) wants(t *testing.T, what string, want int, requests ...shard.Request) []shard.Result {
	t.Helper()
	results, asked := f.ask(requests...)
	if asked != want {
		t.Errorf("%s: the owner was asked for %d of %d requests, want %d", what, asked, len(requests), want)
	}
	return results
}

// Each repetition is reported once, with the request that it answers, and nothing else is.
func TestEachRepetitionIsTold(t *testing.T) {
	f := newFlood()
	var told []string
	f.repeated = func(r *shard.Request, d *shard.Decision) {
		if d.Allowed || d.Age == 0 || len(d.Limits) != 1 {
			t.Errorf("told: %+v", d)
		}
		told = append(told, r.Entries[0].Key)
	}
	f.at = 1
	f.wants(t, "the first ones", 2, check("k"), check("l"))
	f.at = 2
	f.wants(t, "a batch", 1, check("k"), check("new"), check("k"), check("l"))
	var d shard.Decision
	r := check("l")
	if !f.answer(&r, &d) || !slices.Equal(told, []string{"k", "k", "l", "l"}) {
		t.Errorf("told: %q", told)
	}
}

func TestADenialIsRepeatedForTheWholeSpanAndNoLonger(t *testing.T) {
	f := newFlood()
	f.takes = 10 * ms // counted from before the request was sent
	f.wants(t, "the first", 1, check("k"))
	f.wants(t, "the second", 0, check("k"))
	f.at = 250*ms - 1
	f.wants(t, "just before the end", 0, check("k"))
	f.at = 250 * ms
	f.wants(t, "at the end", 1, check("k"))
	f.at += 240*ms - 1
	f.wants(t, "after it was asked again", 0, check("k"))
}

// A repeated denial equals the first one, except that its waits have decreased.
func TestARepeatedDenialSaysWhatIsLeftOfItsWaits(t *testing.T) {
	f := newFlood()
	f.takes, f.wait = 10*ms, 100*ms
	first := f.wants(t, "the first", 1, check("k"))[0].Decision
	if first.Age != 0 {
		t.Errorf("the first is %d old", first.Age)
	}
	f.at += 30 * ms
	second := f.wants(t, "the second", 0, check("k"))[0].Decision
	if second.Age != 40*ms || second.RetryAfter != 70*ms || second.Limits[0].RetryAfter != 70*ms || second.Allowed {
		t.Errorf("after 40 ms: %+v", second)
	}
	if first.RetryAfter != 100*ms || first.Limits[0].RetryAfter != 100*ms {
		t.Errorf("the first has changed: %+v", first)
	}
	f.at += 60*ms - 1
	last := f.wants(t, "just before the wait ends", 0, check("k"))[0].Decision
	if last.RetryAfter != 10*ms+1 {
		t.Errorf("wait %d", last.RetryAfter)
	}
	f.at++
	f.wants(t, "when the wait counted from before it left ends", 1, check("k"))
}

func TestNoAdmissionIsRepeated(t *testing.T) {
	f := newFlood()
	f.admits = true
	for range 3 {
		f.wants(t, "admitted", 1, check("k"))
	}
	if n := f.size(); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

func TestOnlyTheSameRequestGetsTheSameDenial(t *testing.T) {
	f := newFlood()
	original := check("k", "l")
	f.wants(t, "the original", 1, original)
	for what, change := range map[string]func(r *shard.Request){
		"another namespace":  func(r *shard.Request) { r.Namespace = "other" },
		"another key":        func(r *shard.Request) { r.Entries[1].Key = "m" },
		"another cost":       func(r *shard.Request) { r.Entries[1].Cost = 2 },
		"another tier":       func(r *shard.Request) { r.Entries[1].Tier = "gold" },
		"another policy":     func(r *shard.Request) { r.Entries[1].Policy = "short" },
		"fewer entries":      func(r *shard.Request) { r.Entries = r.Entries[:1] },
		"in another order":   func(r *shard.Request) { slices.Reverse(r.Entries) },
		"limits of its own":  func(r *shard.Request) { r.Entries[1].Limits = limitsOfItsOwn },
		"an id":              func(r *shard.Request) { r.ID = "id" },
		"a second copy":      func(r *shard.Request) { r.Retry, r.Number = true, 7 },
		"to be counted":      func(r *shard.Request) { r.Op = shard.Count },
		"as far as it goes":  func(r *shard.Request) { r.Op = shard.Partial },
		"only asked about":   func(r *shard.Request) { r.Op = shard.Peek },
		"to be held":         func(r *shard.Request) { r.Op = shard.Reserve },
		"part of an unknown": func(r *shard.Request) { r.Entries[1].Policy = "unknown" },
		"part without":       func(r *shard.Request) { r.Entries[1].Policy = "never" },
	} {
		r := check("k", "l")
		change(&r)
		f.wants(t, what, 1, r)
	}
	f.wants(t, "the original again", 0, original)
}

var limitsOfItsOwn = []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}}}

// A request that never gets a repeated denial leaves none for others either.
func TestOnlyAPlainCheckIsKept(t *testing.T) {
	for what, change := range map[string]func(r *shard.Request){
		"an id":         func(r *shard.Request) { r.ID = "id" },
		"a second copy": func(r *shard.Request) { r.Retry, r.Number = true, 7 },
		"a count":       func(r *shard.Request) { r.Op = shard.Count },
		"a reservation": func(r *shard.Request) { r.Op = shard.Reserve },
		"a look":        func(r *shard.Request) { r.Op = shard.Peek },
		"one without":   func(r *shard.Request) { r.Entries[0].Policy = "never" },
		"own limits":    func(r *shard.Request) { r.Entries[0].Limits = limitsOfItsOwn },
	} {
		f := newFlood()
		r := check("k")
		change(&r)
		f.wants(t, what, 1, r)
		if n := f.size(); n != 0 {
			t.Errorf("%s: %d are kept", what, n)
		}
	}
	f := newFlood()
	f.wants(t, "a first copy of a session", 1, check("k"))
	numbered := check("k")
	numbered.Session, numbered.Number = shard.Session{Epoch: 1, Seq: 2}, 3
	f.wants(t, "the same, numbered", 0, numbered)
}

// A denial repeated by another node lives no longer here than there. An answer that was counted, or that comes too
// late, is not kept.
func TestWhatIsNotWorthRepeatingIsNotKept(t *testing.T) {
	said := func(change func(d *shard.Decision)) int {
		f := newFlood()
		f.wrap([]shard.Request{check("k")}, func(requests []shard.Request) []shard.Result {
			results := f.decide(requests)
			change(&results[0].Decision)
			return results
		})
		return f.size()
	}
	for what, change := range map[string]func(d *shard.Decision){
		"counted":            func(d *shard.Decision) { d.Index = 1 },
		"replayed":           func(d *shard.Decision) { d.Replayed = true },
		"no wait":            func(d *shard.Decision) { d.RetryAfter = 0 },
		"as old as may be":   func(d *shard.Decision) { d.Age = 250 * ms },
		"of the future":      func(d *shard.Decision) { d.Age = -1 },
		"of somebody else":   func(d *shard.Decision) { d.Limits[0].Key = "l" },
		"of many limits":     func(d *shard.Decision) { d.Limits = slices.Repeat(d.Limits, 17) },
		"an allowed of none": func(d *shard.Decision) { d.Allowed = true },
	} {
		if n := said(change); n != 0 {
			t.Errorf("%s: %d are kept", what, n)
		}
	}
	if n := said(func(d *shard.Decision) { d.Age = 250*ms - 1 }); n != 1 {
		t.Errorf("one that may be repeated for a microsecond more: %d are kept", n)
	}
	f := newFlood()
	f.takes = 250 * ms
	f.wants(t, "one that comes too late", 1, check("k"))
	if n := f.size(); n != 0 {
		t.Errorf("one that comes too late: %d are kept", n)
	}
}

func TestTheShortestSpanOfSeveralPoliciesCounts(t *testing.T) {
	f := newFlood()
	r := check("k", "l")
	r.Entries[1].Policy = "short"
	f.wants(t, "the first", 1, r)
	f.at = 100*ms - 1
	f.wants(t, "before the shorter ends", 0, r)
	f.at = 100 * ms
	f.wants(t, "when the shorter ends", 1, r)
}

// A request that may free capacity ends the denials of its keys, and of no others, before it is decided and again
// afterwards.
func TestWhatMayMakeRoomEndsTheDenialsOfItsKeys(t *testing.T) {
	for _, op := range []shard.Op{shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock,
		shard.PutOverride, shard.DeleteOverride, shard.Settle} {
		f := newFlood()
		gold := check("k")
		gold.Entries[0].Tier, gold.Entries[0].Cost = "gold", 3
		f.wants(t, "to begin with", 4, check("k"), check("l"), check("k", "l"), gold)
		change := check("k")
		change.Op = op
		f.wrap([]shard.Request{change}, func(requests []shard.Request) []shard.Result {
			f.wants(t, fmt.Sprintf("op %d under way", op), 1, check("k"))
			return f.decide(requests)
		})
		f.wants(t, fmt.Sprintf("op %d answered", op), 3, check("k"), check("l"), check("k", "l"), gold)
		f.wants(t, fmt.Sprintf("op %d: others", op), 0, check("l"))
		elsewhere := change
		elsewhere.Namespace = "other"
		f.wants(t, "another namespace", 1, elsewhere)
		f.wants(t, "after that", 0, check("k"), check("l"))
	}
}

// The end of an operation on several shards ends the denials of the keys that it names if it gives something back. If
// it names no keys, it ends all denials.
func TestALegThatGivesBackEndsTheDenialsOfItsKeys(t *testing.T) {
	for state, want := range map[shard.OperationState]int{shard.OperationAborted: 1, shard.OperationSettled: 1,
		shard.OperationCommitted: 0, shard.OperationHeld: 0} {
		f := newFlood()
		f.wants(t, "to begin with", 1, check("k"))
		f.wants(t, "the message", 1, shard.Request{Op: shard.FinishLeg, Namespace: "default",
			Operation: &shard.Operation{Verdict: shard.Verdict{State: state}}})
		f.wants(t, fmt.Sprintf("after state %d", state), want, check("k"))
		f.wants(t, "another key", 1, check("l"))
		f.wants(t, "a message that names one", 1, shard.Request{Op: shard.FinishLeg, Namespace: "default",
			Entries: check("k").Entries, Operation: &shard.Operation{Verdict: shard.Verdict{State: state}}})
		f.wants(t, fmt.Sprintf("the key that was named, after state %d", state), want, check("k"))
		f.wants(t, "the other key", 0, check("l"))
	}
}

// A denial in flight while capacity was freed may predate that: it is not kept, wherever its request and its answer lie
// in between.
func TestADenialUnderWayWhileRoomIsMadeIsNotKept(t *testing.T) {
	reset := check("k")
	reset.Op = shard.Reset
	during := map[string]func(f *flood){
		"asked before, answered after": func(f *flood) {
			f.wrap([]shard.Request{check("k")}, func(requests []shard.Request) []shard.Result {
				results := f.decide(requests)
				f.ask(reset)
				return results
			})
		},
		"asked and answered meanwhile": func(f *flood) {
			f.wrap([]shard.Request{reset}, func(requests []shard.Request) []shard.Result {
				f.ask(check("k"))
				return f.decide(requests)
			})
		},
		"asked meanwhile, answered after": func(f *flood) {
			answered := make(chan struct{})
			reached := make(chan struct{})
			var group sync.WaitGroup
			f.wrap([]shard.Request{reset}, func(requests []shard.Request) []shard.Result {
				group.Go(func() {
					f.wrap([]shard.Request{check("k")}, func(requests []shard.Request) []shard.Result {
						results := f.decide(requests)
						close(reached)
						<-answered
						return results
					})
				})
				<-reached
				return f.decide(requests)
			})
			close(answered)
			group.Wait()
		},
	}
	for what, happens := range during {
		f := newFlood()
		happens(f)
		f.wants(t, what, 1, check("k"))
	}
}

func TestNewPoliciesEndAllDenials(t *testing.T) {
	f := newFlood()
	f.wants(t, "to begin with", 1, check("k"))
	f.revision = policy.Revision{Version: 2, Set: floodPolicies()}
	f.wants(t, "under new ones", 1, check("k"))
	f.revision = policy.Revision{Version: 3, Set: policy.NewSet(nil)}
	f.wants(t, "under none that allow it", 1, check("k"))
	f.revision = policy.Revision{Version: 4, Set: floodPolicies()}
	f.wants(t, "when they are back", 1, check("k"))
}

// Of a batch, only requests without a kept denial go on. Every answer returns to its place, and the order of the
// requests counts.
func TestABatchIsLookedUpRequestByRequest(t *testing.T) {
	f := newFlood()
	f.wants(t, "to begin with", 2, check("k"), check("l"))
	reset := check("l")
	reset.Op = shard.Reset
	batch := []shard.Request{check("new"), check("k"), check("l"), reset, check("l"), check("k"), check("never")}
	batch[6].Entries[0].Policy = "never"
	results := f.wants(t, "the batch", 4, batch...)
	for i := range batch {
		if got, want := results[i].Decision.Limits[0].Key, batch[i].Entries[0].Key; got != want {
			t.Errorf("result %d is of %s, want %s", i, got, want)
		}
		if cached, want := results[i].Decision.Age > 0, i == 1 || i == 2 || i == 5; cached != want {
			t.Errorf("result %d was repeated: %v, want %v", i, cached, want)
		}
	}
	f.wants(t, "the new one", 0, check("new"), check("k"))
	f.wants(t, "what was reset", 1, check("l"))
}

// However many requests are denied, the number of kept denials is bounded, and kept denials are answered without the
// owner.
func TestWhatIsKeptIsBounded(t *testing.T) {
	f := newFlood()
	for i := range 3 * denialSlots {
		f.ask(check(fmt.Sprint("k", i)))
	}
	if n := f.size(); n > denialSlots || n < denialSlots/2 {
		t.Errorf("%d are kept of %d places", n, denialSlots)
	}
	for i := range 3 * denialSlots {
		key := fmt.Sprint("k", i)
		if results, _ := f.ask(check(key)); results[0].Decision.Limits[0].Key != key {
			t.Fatalf("%s was answered what %s was", key, results[0].Decision.Limits[0].Key)
		}
	}
}

// Denials are answered from shared memory: a caller must not be able to change the answers of others.
func TestAnswersDoNotShareMemory(t *testing.T) {
	f := newFlood()
	f.ask(check("k"))
	first, _ := f.ask(check("k"), check("k"))
	first[0].Decision.Limits[0].Key = "changed"
	_ = append(first[0].Decision.Limits, shard.LimitStatus{Key: "appended"})
	if got := first[1].Decision.Limits[0].Key; got != "k" {
		t.Errorf("the other answer of the batch says %s", got)
	}
	if again, _ := f.ask(check("k")); again[0].Decision.Limits[0].Key != "k" {
		t.Errorf("the next answer says %s", again[0].Decision.Limits[0].Key)
	}
}

// A hit allocates memory for its results and statuses only.
func TestAHitAllocatesItsAnswerOnly(t *testing.T) {
	f := newFlood()
	requests := []shard.Request{check("k", "l")}
	decide := f.decide
	f.wrap(requests, decide)
	if n := testing.AllocsPerRun(100, func() { f.wrap(requests, decide) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
	batch := make([]shard.Request, 100)
	for i := range batch {
		batch[i] = check("k")
	}
	f.wrap(batch, decide)
	if n := testing.AllocsPerRun(100, func() { f.wrap(batch, decide) }); n > 3 {
		t.Errorf("%v allocations of a batch", n)
	}
}

// Readers, writers and resets run at the same time: after an answered reset, no earlier denial is repeated.
func TestNoDenialOutlivesAResetWhateverRaces(t *testing.T) {
	type version struct {
		sync.Mutex
		n limit.Time
	}
	var truth version // a denial carries it in DecidedAt
	d := denialsUnder(func() *policy.Revision { return &policy.Revision{Version: 1, Set: sharedFlood} })
	decide := func(requests []shard.Request) []shard.Result {
		results := make([]shard.Result, len(requests))
		for i := range requests {
			truth.Lock()
			if requests[i].Op == shard.Reset {
				truth.n++
			}
			results[i].Decision = shard.Decision{Allowed: requests[i].Op == shard.Reset, DecidedAt: truth.n,
				RetryAfter: limit.Never, Limits: []shard.LimitStatus{{Policy: "p", Key: "k", Limit: "a"}}}
			truth.Unlock()
		}
		return results
	}
	router := func(_ context.Context, r shard.Request) shard.Decision {
		return d.wrap([]shard.Request{r}, decide)[0].Decision
	}
	var resets, checks sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		checks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					router(t.Context(), check("k"))
				}
			}
		})
	}
	for range 2 {
		resets.Go(func() {
			for range 3000 {
				reset := check("k")
				reset.Op = shard.Reset
				done := router(t.Context(), reset)
				if after := router(t.Context(), check("k")); after.DecidedAt < done.DecidedAt {
					t.Errorf("after reset %d the denial of %d was repeated", done.DecidedAt, after.DecidedAt)
				}
			}
		})
	}
	resets.Wait()
	close(stop)
	checks.Wait()
}

var sharedFlood = floodPolicies()

func BenchmarkDenials(b *testing.B) {
	revision := &policy.Revision{Version: 1, Set: sharedFlood}
	d := denialsUnder(func() *policy.Revision { return revision })
	f := &flood{wait: limit.Never}
	requests := make([]shard.Request, 100)
	for i := range requests {
		requests[i] = check(fmt.Sprint("user:", i))
	}
	for _, c := range []struct {
		name     string
		requests []shard.Request
	}{{"single", requests[:1]}, {"batch100", requests}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d.wrap(c.requests, f.decide)
			}
		})
	}
}

// A denial that is not repeated any more would hold its key in memory.
func TestADenialOfAForgottenKeyIsDropped(t *testing.T) {
	f := newFlood()
	f.wants(t, "to begin with", 3, check("k"), check("l"), check("k", "l"))
	forget := shard.Request{Op: shard.Forget, Namespace: check("k").Namespace,
		Adjustment: &shard.Adjustment{Forget: "k"}}
	f.wrap([]shard.Request{forget}, func(requests []shard.Request) []shard.Result {
		f.wants(t, "under way", 1, check("k"))
		return f.decide(requests)
	})
	for i := range f.slots {
		if kept := f.slots[i].Load(); kept != nil &&
			slices.ContainsFunc(kept.entries, func(e shard.Entry) bool { return e.Key == "k" }) {
			t.Errorf("a denial of %+v is kept", kept.entries)
		}
	}
}
