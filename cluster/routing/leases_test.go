package routing

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/holder"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// berth is the leases of one node, its clocks, and an owner that admits everything and grants what it is asked for.
type berth struct {
	testing.TB
	*leases
	mu       sync.Mutex
	revision policy.Revision
	slept    time.Duration
	wallOff  time.Duration
	takes    time.Duration // of an answer
	loses    bool          // the answers to grants
	refuses  bool          // grants nothing
	asked    []shard.Request
	ended    []string // keys whose leases the other nodes were to return
	terms    []shard.LeaseTerms
	told     int
	sent     time.Time // the newest grant was asked for
}

// inBerth runs a test in a bubble, and wants each lease to be returned.
func inBerth(t *testing.T, test func(b *berth)) {
	synctest.Test(t, func(t *testing.T) {
		b := &berth{TB: t}
		var policies []*policy.Policy
		for _, name := range []string{"p", "other", "never"} {
			p := &policy.Policy{Name: name, Retention: policy.DefaultRetention, Limits: []policy.Limit{{Name: "a",
				Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: 1000, Period: 60_000_000}}}}
			if name != "never" {
				p.Lease = &policy.Lease{Units: 100, For: 2_000_000, Share: 50}
			}
			policies = append(policies, p)
		}
		b.revision = policy.Revision{Version: 1, Set: policy.NewSet(policies)}
		config := Config{
			Policies: func() *policy.Revision { b.mu.Lock(); defer b.mu.Unlock(); return new(b.revision) },
			Now:      func() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return time.Now().Add(b.wallOff) },
			Slept:    func() time.Duration { b.mu.Lock(); defer b.mu.Unlock(); return b.slept },
			Repeated: func(r *shard.Request, d *shard.Decision) { b.told++ },
			EndElsewhere: func(namespace, policy, key string) {
				b.ended = append(b.ended, namespace+"/"+policy+"/"+key)
			},
		}
		config.setDefaults()
		b.leases = newLeases(&config, b.decideAsOwner)
		test(b)
		b.Close()
		owed := map[uint64]bool{}
		for _, t := range b.terms {
			if t.Returned != 0 {
				delete(owed, t.Returned)
			}
			if t.Number != 0 {
				owed[t.Number] = true
			}
		}
		if len(owed) > 0 || b.Held() != 0 {
			t.Errorf("%v were not returned, %d are held", owed, b.Held())
		}
	})
}

func (b *berth) decideAsOwner(_ context.Context, requests []shard.Request) []shard.Result {
	at, sent := now(), time.Now()
	b.mu.Lock()
	takes := b.takes
	b.mu.Unlock()
	time.Sleep(takes)
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]shard.Result, len(requests))
	for i := range requests {
		d := &results[i].Decision
		d.Allowed, d.DecidedAt, d.Index = true, at, 1
		if requests[i].Op != shard.Lease {
			b.asked = append(b.asked, requests[i])
			continue
		}
		t := *requests[i].System.Lease
		b.terms = append(b.terms, t)
		d.System = &shard.SystemAnswer{Lease: &shard.Leased{}}
		if t.Number != 0 {
			b.sent = sent
		}
		if t.Number != 0 && !b.refuses {
			*d.System.Lease = shard.Leased{Units: t.Units, Ends: at + 2_000_000}
		}
		d.Limits = []shard.LimitStatus{{Policy: "p", Key: requests[i].Entries[0].Key, Limit: "a", Quota: 1000}}
		if t.Number != 0 && b.loses {
			results[i] = shard.Result{Err: failure(shard.UnknownOutcome)}
		}
	}
	return results
}

// answerIn sets how long the owner takes for an answer.
func (b *berth) answerIn(takes time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takes = takes
}

// heard returns what the owner was asked about leases.
func (b *berth) heard() []shard.LeaseTerms {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.terms)
}

// refuse has the owner grant nothing from now on.
func (b *berth) refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = true
}

func one(key string) shard.Request {
	return shard.Request{Op: shard.Check, Namespace: "n", Entries: []shard.Entry{{Policy: "p", Key: key, Cost: 1}}}
}

// wantsAsked has requests answered, and checks how many of them the owner decides.
func (b *berth) wantsAsked(what string, want int, requests ...shard.Request) []shard.Result {
	b.Helper()
	before := len(b.asked)
	results := b.wrap(requests, func(rest []shard.Request) []shard.Result {
		return b.decideAsOwner(context.Background(), rest)
	})
	if asked := len(b.asked) - before; asked != want {
		b.Errorf("%s: the owner was asked for %d of %d requests, want %d", what, asked, len(requests), want)
	}
	return results
}

// moor gets a lease of a key.
func (b *berth) moor(key string) {
	b.Helper()
	for range 2 {
		b.wantsAsked("before there is a lease", 1, one(key))
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
}

// keepAsking lets some time pass while the key is asked for, so that its lease is not idle.
func (b *berth) keepAsking(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond)
		b.answer(new(b.revision), new(one("k")), false, new(shard.Decision))
	}
}

func TestALeaseAnswersAPlainCheck(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		time.Sleep(time.Millisecond)
		results := b.wantsAsked("from the lease", 1, one("k"), one("new"), one("k"))
		for i, want := range []bool{true, false, true} {
			if d := results[i].Decision; d.Leased() != want || !d.Allowed ||
				want && (d.Index != 0 || len(d.Limits) != 1 || !d.Limits[0].Allowed) {
				t.Errorf("request %d: %+v", i, d)
			}
		}
		results[0].Decision.Limits[0].Key = "changed by its caller"
		if d := b.wantsAsked("again", 0, one("k"))[0].Decision; d.Limits[0].Key != "k" {
			t.Errorf("the answers share memory: %+v", d)
		}
		if b.told != 3 {
			t.Errorf("%d answers were told", b.told)
		}
	})
}

func TestOnlyAPlainCheckIsLeased(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		for what, change := range map[string]func(r *shard.Request){
			"another namespace": func(r *shard.Request) { r.Namespace = "other" },
			"another key":       func(r *shard.Request) { r.Entries[0].Key = "l" },
			"a hashed key":      func(r *shard.Request) { r.Hashed = true },
			"another tier":      func(r *shard.Request) { r.Entries[0].Tier = "gold" },
			"another policy":    func(r *shard.Request) { r.Entries[0].Policy = "other" },
			"without a lease":   func(r *shard.Request) { r.Entries[0].Policy = "never" },
			"unknown":           func(r *shard.Request) { r.Entries[0].Policy = "unknown" },
			"no cost":           func(r *shard.Request) { r.Entries[0].Cost = 0 },
			"more than is left": func(r *shard.Request) { r.Entries[0].Cost = 101 },
			"several entries": func(r *shard.Request) {
				r.Entries = append(r.Entries, shard.Entry{Policy: "other", Key: "k", Cost: 1})
			},
			"limits of its own":    func(r *shard.Request) { r.Entries[0].Limits = limitsOfItsOwn },
			"an id":                func(r *shard.Request) { r.ID = "id" },
			"a second copy":        func(r *shard.Request) { r.Retry, r.Number = true, 7 },
			"a count":              func(r *shard.Request) { r.Op = shard.Count },
			"as far as it goes":    func(r *shard.Request) { r.Op = shard.Partial },
			"only asked about":     func(r *shard.Request) { r.Op = shard.Peek },
			"to be held":           func(r *shard.Request) { r.Op = shard.Reserve },
			"part of an operation": func(r *shard.Request) { r.Operation = &shard.Operation{} },
		} {
			r := one("k")
			change(&r)
			b.wantsAsked(what, 1, r)
		}
		b.wantsAsked("the same", 0, one("k"))
	})
}

// While a lease is on its way back, nothing is spent from it: the owner has counted what was not spent as free.
func TestALeaseIsNotSpentWhileItIsReturned(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		b.answerIn(50 * time.Millisecond)
		for range b.terms[0].Units * 3 / 4 {
			b.wantsAsked("three quarters of it", 0, one("k"))
		}
		synctest.Wait()
		b.wantsAsked("meanwhile", 1, one("k"))
		b.answerIn(0)
	})
}

// A lease ends by each of the two clocks, from before it was asked for, and before the owner's end.
func TestALeaseEndsByBothClocks(t *testing.T) {
	lives := time.Duration(2_000_000-shard.LeaseMargin(2_000_000)) * time.Microsecond
	for what, move := range map[string]func(b *berth, d time.Duration){
		"asleep":   func(b *berth, d time.Duration) { b.set(&b.slept, d) },
		"the wall": func(b *berth, d time.Duration) { b.set(&b.wallOff, d) },
	} {
		inBerth(t, func(b *berth) {
			b.answerIn(100 * time.Millisecond) // counted from before it was asked for
			b.wrap([]shard.Request{one("k")}, b.ownerSays)
			time.Sleep(time.Millisecond)
			b.wrap([]shard.Request{one("k")}, b.ownerSays)
			b.wrap([]shard.Request{one("k")}, b.ownerSays)
			synctest.Wait()
			b.answerIn(0)
			if b.Held() != 1 {
				t.Fatal("it has no lease")
			}
			began := time.Since(b.sent)
			if began < 100*time.Millisecond {
				t.Fatalf("%s: the lease counts from %v ago", what, began)
			}
			move(b, lives-began-time.Microsecond)
			b.wantsAsked(what+", just before the end", 0, one("k"))
			move(b, lives-began)
			b.wantsAsked(what+", at the end", 1, one("k"))
		})
	}
}

// set sets a clock of the holder.
func (b *berth) set(clock *time.Duration, to time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*clock = to
}

func (b *berth) ownerSays(r []shard.Request) []shard.Result {
	return b.decideAsOwner(context.Background(), r)
}

func TestAClockThatIsSetBackEndsALease(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		b.wantsAsked("before", 0, one("k"))
		b.set(&b.wallOff, -time.Second)
		b.wantsAsked("after", 1, one("k"))
	})
}

func TestNoLeaseLivesLonger(t *testing.T) {
	if most := time.Duration(policy.LeaseForMax) * time.Microsecond; most != holder.LifeMax {
		t.Errorf("%v by a policy, %v in a holder's memory", most, holder.LifeMax)
	}
}

// Leases of other nodes end before a change by hand, and those that are open at it after it. Its answer tells of what is
// open then.
func TestAChangeByHandEndsTheLeasesOfOtherNodes(t *testing.T) {
	block := one("k")
	block.Op = shard.Block
	never := one("k")
	never.Op, never.Entries[0].Policy = shard.Block, "never"
	forget := shard.Request{Op: shard.Forget, Namespace: "n", Adjustment: &shard.Adjustment{Forget: "k"}}
	for _, c := range []struct {
		change        shard.Request
		open          bool
		before, after []string
	}{
		{block, false, []string{"n/p/k"}, []string{"n/p/k"}},
		{block, true, []string{"n/p/k"}, []string{"n/p/k", "n/p/k"}},
		{never, false, nil, nil},
		{forget, false, []string{"n//k"}, []string{"n//k"}},
		{one("k"), false, nil, nil},
	} {
		inBerth(t, func(b *berth) {
			results := b.wrap([]shard.Request{c.change}, func(r []shard.Request) []shard.Result {
				if !slices.Equal(b.ended, c.before) {
					t.Errorf("op %d: %q before it", c.change.Op, b.ended)
				}
				said := make([]shard.Result, len(r))
				if c.open {
					said[0].Decision.System = &shard.SystemAnswer{Lease: &shard.Leased{Units: 9}}
				}
				return said
			})
			if !slices.Equal(b.ended, c.after) || results[0].Decision.Answer().Lease != nil {
				t.Errorf("op %d: %q, and %+v is open", c.change.Op, b.ended, results[0].Decision.Answer().Lease)
			}
			if c.open && (len(b.asked) != 1 || b.asked[0].Op != shard.Get || b.asked[0].Entries[0].Key != "k") {
				t.Errorf("op %d: the owner was asked %+v", c.change.Op, b.asked)
			}
		})
	}
}

func TestALeaseIsOfTheNewestPolicies(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		b.mu.Lock()
		b.revision.Version++
		b.mu.Unlock()
		b.wantsAsked("of the next revision", 1, one("k"))
	})
}

func TestAChangeByHandEndsTheLease(t *testing.T) {
	for _, op := range []shard.Op{shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock,
		shard.PutOverride, shard.DeleteOverride, shard.Forget} {
		change := one("k")
		change.Op = op
		if op == shard.Forget {
			change = shard.Request{Op: op, Namespace: "n", Adjustment: &shard.Adjustment{Forget: "k"}}
		}
		inBerth(t, func(b *berth) {
			b.moor("k")
			b.moor("l")
			b.wantsAsked("one is spent", 0, one("k"))
			before := len(b.heard())
			b.refuse() // another lease of the key
			b.wrap([]shard.Request{change}, func(r []shard.Request) []shard.Result {
				heard := b.heard()[before:]
				if !slices.ContainsFunc(heard,
					func(t shard.LeaseTerms) bool { return t.Returned == 1 && t.Spent == 1 }) {
					t.Errorf("op %d: the owner has heard %+v before it", op, heard)
				}
				return b.ownerSays(r)
			})
			b.wantsAsked("after it", 1, one("k"))
			b.wantsAsked("another key", 0, one("l"))
		})
		// A lease that was asked for before the change is not held, however late the answer comes.
		inBerth(t, func(b *berth) {
			b.answerIn(50 * time.Millisecond) // of a grant
			quick := func(r []shard.Request) []shard.Result { return make([]shard.Result, len(r)) }
			for range 2 {
				b.wrap([]shard.Request{one("k")}, quick)
				time.Sleep(time.Millisecond)
			}
			b.pass([]shard.Request{change}, quick)
			time.Sleep(60 * time.Millisecond)
			synctest.Wait()
			if n := b.Held(); n != 0 {
				t.Errorf("op %d: a lease from before the change is held", op)
			}
			b.answerIn(0)
		})
		// Nor is one that is granted while the change is under way.
		inBerth(t, func(b *berth) {
			b.pass([]shard.Request{change}, func(r []shard.Request) []shard.Result {
				b.moor("k")
				if b.Held() != 1 {
					t.Error("there is no lease")
				}
				return make([]shard.Result, len(r))
			})
			if n := b.Held(); n != 0 {
				t.Errorf("op %d: a lease from before the change was answered is held", op)
			}
		})
	}
}

func TestAnUnknownGrantIsReturnedAndNotHeld(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.loses = true
		b.moor("k")
		if n := b.Held(); n != 0 || len(b.terms) != 2 || b.terms[1].Returned != b.terms[0].Number ||
			b.terms[1].Spent != 0 {
			t.Errorf("%d held, the owner has heard %+v", n, b.terms)
		}
		b.wantsAsked("without a lease", 1, one("k"))
	})
}

// Where nothing is granted, the owner is not asked again for as long as a lease lives.
func TestAHolderThatIsGrantedNothingIsCalm(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.refuses = true
		b.moor("k")
		asked := len(b.terms)
		for range 1900 {
			time.Sleep(time.Millisecond)
			b.wrap([]shard.Request{one("k")}, b.ownerSays)
		}
		if len(b.terms) != asked {
			t.Errorf("asked for %d more", len(b.terms)-asked)
		}
		b.refuses = false
		b.keepAsking(time.Second)
		time.Sleep(time.Millisecond)
		b.wrap([]shard.Request{one("k"), one("k")}, b.ownerSays)
		time.Sleep(time.Millisecond)
		b.wrap([]shard.Request{one("k"), one("k")}, b.ownerSays)
		synctest.Wait()
		if b.Held() != 1 {
			t.Error("later none is held")
		}
	})
}

func TestAnIdleLeaseIsReturned(t *testing.T) {
	inBerth(t, func(b *berth) {
		b.moor("k")
		b.wantsAsked("a unit", 0, one("k"))
		time.Sleep(199 * time.Millisecond)
		if b.Held() != 1 {
			t.Error("it was returned early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if last := b.terms[len(b.terms)-1]; b.Held() != 0 || last.Number != 0 || last.Spent != 1 {
			t.Errorf("%d are held, the owner has heard %+v", b.Held(), last)
		}
	})
}

// Three nodes with demand enough admit exactly the limit, and the owner hears of few of the checks.
func TestHoldersAdmitExactlyTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMarina(t, 1, 1)
		w.calm = true
		stop := make(chan struct{})
		var guests sync.WaitGroup
		admitted := make([]uint64, 3)
		for i := range admitted {
			n := w.holder(1 << 30)
			guests.Go(func() {
				defer n.Close()
				for range 3000 {
					r := w.check(1)
					r.Entries[0].Policy = "window"
					if n.Decide(t.Context(), []shard.Request{r})[0].Decision.Allowed {
						admitted[i]++
					}
					time.Sleep(time.Duration(1+i) * time.Millisecond / 2)
				}
			})
		}
		guests.Wait()
		close(stop)
		if sum := admitted[0] + admitted[1] + admitted[2]; sum != 400 {
			t.Errorf("%v were admitted, want 400 together", admitted)
		}
		if w.leased < 150 {
			t.Errorf("%d of them from leases", w.leased)
		}
		w.settleDown()
		w.close()
	})
}

// What was not spent comes back when its holders stop, and when the key is not asked for any more.
func TestNothingIsWasted(t *testing.T) {
	for _, stops := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newMarina(t, 1, 1)
			w.calm = true
			var holders []*mortal
			var guests sync.WaitGroup
			for range 3 {
				n := w.holder(1 << 30)
				holders = append(holders, n)
				guests.Go(func() {
					for range 40 {
						r := w.check(1)
						r.Entries[0].Policy = "log"
						n.Decide(t.Context(), []shard.Request{r})
						time.Sleep(2 * time.Millisecond)
					}
				})
			}
			guests.Wait()
			if w.leased < 20 || holders[0].LeasesHeld()+holders[1].LeasesHeld()+holders[2].LeasesHeld() == 0 {
				t.Errorf("%d answers from leases", w.leased)
			}
			began := time.Now()
			if !stops {
				time.Sleep(300 * time.Millisecond)
			}
			for _, n := range holders {
				if n.LeasesHeld() != 0 && !stops {
					t.Error("an idle lease is held")
				}
				n.Close()
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
			if used := w.usedAt("log", marinaKey); used != uint64(w.leased+w.decided) || used != 120 {
				t.Errorf("%d are used, and %d and %d were admitted", used, w.leased, w.decided)
			}
			w.settleDown()
			w.close()
		})
	}
}

// The log of a key that is asked for often has far fewer entries than the key has answers.
func TestAHotKeyCostsFewLogEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMarina(t, 1, 1)
		w.calm = true
		for _, s := range w.shards {
			s.mu.Lock()
		}
		w.revise(100_000)
		for _, s := range w.shards {
			s.mu.Unlock()
		}
		entries := -w.entries()
		n := w.holder(1 << 30)
		for range 4000 {
			r := w.check(1)
			r.Entries[0].Policy = "window"
			if !n.Decide(t.Context(), []shard.Request{r})[0].Decision.Allowed {
				t.Fatal("denied")
			}
			time.Sleep(500 * time.Microsecond)
		}
		n.Close()
		if entries += w.entries(); entries > 1000 {
			t.Errorf("%d entries for 4000 answers", entries)
		}
		t.Logf("%d entries for 4000 answers", entries)
		w.settleDown()
		w.close()
	})
}

// entries returns how many entries the logs have.
func (w *marina) entries() (n int) {
	for _, s := range w.shards {
		s.mu.Lock()
		n += int(s.index)
		s.mu.Unlock()
	}
	return n
}
