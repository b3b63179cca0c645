package shard

import (
	"iter"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// leasing returns a policy with leases of up to 40 units for 2 s, and all that is left at most.
func leasing(limits ...limit.Limit) *policy.Policy {
	p := onePolicy(limits...)
	p.Lease = &policy.Lease{Units: 40, For: 2 * second, Share: 100}
	return p
}

// leasable are limits of 100 of every algorithm that allows a lease.
var leasable = map[string]limit.Limit{
	"fixed":     {Algorithm: limit.FixedWindow, Quota: 100, Period: minute},
	"first hit": {Algorithm: limit.FixedWindowFirstHit, Quota: 100, Period: minute},
	"sliding":   {Algorithm: limit.SlidingWindow, Quota: 100, Period: minute},
	"buckets":   {Algorithm: limit.SlidingBuckets, Quota: 100, Period: minute, Bucket: second},
	"log":       {Algorithm: limit.SlidingLog, Quota: 100, Period: minute},
	"tokens":    {Algorithm: limit.TokenBucket, Quota: 100, Count: 10, Period: second, Initial: 100},
	"gcra":      {Algorithm: limit.GCRA, Quota: 100, Count: 10, Period: second},
	"calendar":  {Algorithm: limit.Calendar, Quota: 100, Cycle: policy.UsualCycle(limit.Hour)},
}

func init() {
	for _, l := range leasable {
		if l.Cycle != nil {
			l.Cycle.Zone = zones[0]
		}
	}
}

// eachLeasable runs a test for each of these limits.
func eachLeasable(t *testing.T, test func(t *testing.T, w *world, l limit.Limit)) {
	for name, l := range leasable {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, leasing(l)), l) })
	}
}

func leaseOf(key string, terms LeaseTerms) Request {
	return Request{Op: Lease, Namespace: "default", Entries: []Entry{{Policy: "p", Key: key}},
		System: &SystemTerms{Lease: &terms}}
}

// lease asks for a lease of a holder.
func (w *world) lease(now limit.Time, holder string, units uint64) Leased {
	w.Helper()
	d := w.must(now, leaseOf("k", LeaseTerms{Holder: holder, Number: 1, Units: units}))
	return *d.System.Lease
}

func (w *world) returned(now limit.Time, holder string, spent uint64) {
	w.Helper()
	w.must(now, leaseOf("k", LeaseTerms{Holder: holder, Returned: 1, Spent: spent}))
}

// room checks how much an ordinary check gets at an instant, without taking it.
func (w *world) room(now limit.Time, want uint64) {
	w.Helper()
	for cost := want; cost <= want+1; cost++ {
		peek := checkOf("p", "k", max(1, cost))
		peek.Op = Peek
		if d := w.must(now, peek); d.Allowed != (cost == want && cost > 0) {
			w.Fatalf("at %d: a check of %d is %v, there must be room for %d: %+v",
				now-origin, cost, d.Allowed, want, d.Limits)
		}
	}
}

func TestWhatIsLeasedIsNotLeft(t *testing.T) {
	eachLeasable(t, func(t *testing.T, w *world, _ limit.Limit) {
		if got := w.lease(origin, "a", 99); got != (Leased{40, origin + limit.Time(2*second)}) {
			t.Fatalf("granted %+v", got)
		}
		w.room(origin, 60)
		d := w.must(origin, checkOf("p", "k", 50))
		if s := d.Limits[0]; s.Used != 90 || s.Remaining != 10 || s.Held != 40 || s.Quota != 100 {
			t.Fatalf("after it %+v", s)
		}
		// What is denied passes when it is said to, if the holder dies.
		denied := w.must(origin, checkOf("p", "k", 60))
		passes := origin + limit.Time(denied.RetryAfter)
		peek := checkOf("p", "k", 60)
		peek.Op = Peek
		if early, then := w.must(passes-1, peek), w.must(passes, peek); denied.Allowed || early.Allowed ||
			!then.Allowed {
			t.Errorf("after %d us, %+v, it is %+v", denied.RetryAfter, early, then)
		}
	})
}

func TestLeasesTakeTheShareOfWhatIsLeft(t *testing.T) {
	eachLeasable(t, func(t *testing.T, w *world, _ limit.Limit) {
		p, _ := w.policies.Lookup("p")
		p.Lease.Share = 50
		w.must(origin, checkOf("p", "k", 20))
		for i, want := range []uint64{25, 15, 0} { // of 80 that are left, 40 are leased
			if got := w.lease(origin, string(rune('a'+i)), 25); got.Units != want {
				t.Errorf("lease %d is %+v, not of %d", i, got, want)
			}
		}
		w.room(origin, 40)
		w.must(origin, checkOf("p", "k", 39)) // 41 are left besides: half of them are leased already
		if got := w.lease(origin, "z", 5); got.Units != 0 {
			t.Errorf("near the end a lease is %+v", got)
		}
	})
}

func TestADeadHolderHasSpentItsLease(t *testing.T) {
	ends := origin + limit.Time(2*second)
	counts := map[string]limit.Time{ // until when all of it counts
		"fixed": origin + limit.Time(minute), "first hit": ends + limit.Time(minute),
		"sliding": origin + limit.Time(minute),
		"buckets": ends + limit.Time(minute), "log": ends + limit.Time(minute), "tokens": ends + limit.Time(second/10),
		"gcra": ends + limit.Time(second/10), "calendar": origin + limit.Time(hour)}
	for name, l := range leasable {
		w := newWorld(t, leasing(l))
		w.lease(origin, "a", 40)
		w.room(ends-1, 60)
		w = newWorld(t, leasing(l))
		w.lease(origin, "a", 40)
		w.room(counts[name]-1, 60) // no request came in between
		if more := w.usedOf(counts[name], "p", "k")[0]; more != 0 && name != "sliding" && name != "tokens" &&
			name != "gcra" {
			t.Errorf("%s: %d units count until later", name, more)
		}
		w = newWorld(t, leasing(l))
		w.lease(origin, "a", 40)
		w.must(ends, checkOf("p", "k", 60))
		w.room(ends, 0)
	}
}

func TestAReturnedLeaseGivesBackWhatWasNotSpent(t *testing.T) {
	eachLeasable(t, func(t *testing.T, w *world, _ limit.Limit) {
		w.lease(origin, "a", 40)
		for range 2 { // a copy changes nothing
			w.returned(origin+1, "a", 15)
			w.room(origin+1, 85)
		}
		w.lease(origin+1, "b", 40)
		w.returned(origin+1, "b", 400)
		w.room(origin+1, 45)
		w.lease(origin+1, "c", 40)
		at := origin + 1 + limit.Time(2*second)
		w.returned(at, "c", 0) // too late
		if used := w.usedOf(at, "p", "k")[0]; used < 75 {
			t.Errorf("a lease that is returned at its end was spent, and %d units are used", used)
		}
		if got := w.lease(at, "a", 1); got.Units != 1 {
			t.Errorf("then %+v", got)
		}
		d := w.must(at, leaseOf("k", LeaseTerms{Holder: "a", Number: 2, Units: 3, Returned: 1}))
		if again := w.must(at, leaseOf("k", LeaseTerms{Holder: "a", Number: 2, Units: 3})); d.System.Lease.Units != 3 ||
			again.System.Lease.Units != 0 {
			t.Errorf("renewed: %+v, and a copy gets %+v", d.System.Lease, again.System.Lease)
		}
	})
}

// A holder gives back what it has not spent, although its tier, its policy or its key's override is gone by then.
func TestAReturnNeedsNoPolicy(t *testing.T) {
	quota := uint64(90)
	numbers := map[string]policy.TierLimit{"a": {Quota: &quota}}
	p, later := leasing(leasable["fixed"]), leasing(leasable["fixed"])
	p.Tiers = map[string]policy.Tier{"gold": {Limits: numbers}}
	later.UnknownKey = policy.UnknownKeyDeny
	without := map[string][]*policy.Policy{"tier": {leasing(leasable["fixed"])}, "policy": nil,
		"override": {later}}
	for what, policies := range without {
		w := newWorld(t, p)
		r := leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 40})
		r.Entries[0].Tier = map[string]string{"tier": "gold"}[what]
		w.must(origin, r)
		w.policies = policy.NewSet(policies)
		r.System.Lease = &LeaseTerms{Holder: "a", Number: 2, Units: 1, Returned: 1}
		w.refused(origin+1, r)
		r.System.Lease = &LeaseTerms{Holder: "a", Returned: 1, Spent: 5}
		w.must(origin+2, r)
		w.policies = policy.NewSet([]*policy.Policy{p})
		if used := w.usedOf(origin+3, "p", "k")[0]; used != 5 {
			t.Errorf("without its %s: %d units are used", what, used)
		}
	}
}

// TestAReturnNeedsNoRoom: a return leaves no record, so it is no new key, whatever there is no room for.
func TestAReturnNeedsNoRoom(t *testing.T) {
	for _, capped := range []bool{false, true} {
		p := leasing(leasable["log"])
		p.MaxKeys = uint64(bit(capped))
		w := newWorld(t, p)
		w.must(origin, checkOf("p", "other", 1))
		if !capped {
			w.most = 1
		}
		if err := w.refused(origin+1, leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 1})); err.Code != MemoryFull {
			t.Error(err)
		}
		if w.returned(origin+2, "a", 0); w.state.Records() != 1 {
			t.Errorf("%d records", w.state.Records())
		}
	}
}

func TestALeaseEndsBeforeItsWindow(t *testing.T) {
	for _, name := range []string{"fixed", "calendar"} {
		l := leasable[name]
		w := newWorld(t, leasing(l))
		edge := limit.WindowEnd(l, limit.State{}, origin)
		if got := w.lease(edge-limit.Time(second), "a", 40); got.Units != 40 || got.Ends != edge-1 {
			t.Errorf("%s: %+v, the window ends at %d", name, got, edge)
		}
		w.room(edge, 100)
		// What would leave nothing but the margin is not granted.
		w = newWorld(t, leasing(l))
		length := limit.Span(501_002)
		if got := w.lease(edge-1-limit.Time(length), "a", 40); LeaseMargin(length) != 501_003 || got.Units != 0 {
			t.Errorf("%s: %+v within the margin of %d", name, got, LeaseMargin(length))
		}
	}
}

func TestALeaseOutlivesWhatChangesItsKey(t *testing.T) {
	ends := origin + limit.Time(2*second)
	quota := uint64(70)
	for what, change := range map[string]func(w *world){
		"reset": func(w *world) {
			w.must(origin+2, Request{Op: Reset, Namespace: "default", Entries: checkOf("p", "k", 1).Entries})
		},
		"set": func(w *world) {
			w.must(origin+2, Request{Op: SetUsed, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
				Adjustment: &Adjustment{}})
		},
		"override": func(w *world) {
			w.must(origin+2, Request{Op: PutOverride, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
				Adjustment: &Adjustment{
					Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}})
		},
		"forget": func(w *world) {
			if f := w.forget(origin+2, "k"); f.Open != 0 || f.Counters != 1 || f.Holds != 0 {
				w.Errorf("forgot %+v", f)
			}
		},
	} {
		eachLeasable(t, func(t *testing.T, w *world, _ limit.Limit) {
			w.must(origin, checkOf("p", "k", 10))
			w.lease(origin+1, "a", 40)
			change(w)
			used := w.usedOf(origin+3, "p", "k")[0]
			if want := map[bool]uint64{true: 50, false: 40}[what == "override"]; used != want {
				t.Errorf("%s: %d are used, must be %d", what, used, want)
			}
			if then := w.usedOf(ends+1, "p", "k")[0]; then < 40 {
				t.Errorf("%s: at the end %d are used", what, then)
			}
			if what == "forget" {
				if f := w.forget(ends+2, "k"); f.Open != 0 || f.Counters != 1 {
					t.Errorf("after the end it forgot %+v", f)
				}
			}
		})
	}
}

// Also if no request asks for the key as long as the former limits count anything.
func TestALeaseCountsInTheLimitsOfItsEnd(t *testing.T) {
	ends := origin + limit.Time(2*second)
	brief := limit.Limit{Algorithm: limit.SlidingLog, Quota: 100, Period: 20 * second}
	for name, l := range leasable {
		for _, asked := range []limit.Time{origin + 6, ends + 1, ends + limit.Time(21*second)} {
			for what, revisions := range map[string][][]limit.Limit{"a limit is added": {{brief, l}},
				"the limit is changed": {{l}}, "one is added and changed": {{brief, brief}, {brief, l}}} {
				w := newWorld(t, leasing(brief))
				o := &owner{world: w, overlay: map[string]Record{}}
				o.adopt(origin, w.policies)
				o.decide(origin, []Request{leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 40})})
				for i, limits := range revisions {
					o.adopt(origin+5+limit.Time(i), policy.NewSet([]*policy.Policy{leasing(limits...)}))
				}
				for len(o.pending) > 0 {
					o.installOldest()
				}
				used := w.usedOf(asked, "p", "k")
				if want := map[bool]uint64{true: 40}[asked <= ends+1 ||
					name != "tokens" && name != "gcra"]; used[len(used)-1] != want {
					t.Errorf("%s, %s: asked at %d, %d are used", name, what, asked-origin, used)
				}
			}
		}
	}
}

// What was spent before a limit there was is none of it, whether a request comes before that or not. It is if the lease
// ends later, also if its policy, or all policies, allow none any more.
func TestALeaseCountsInNoLaterLimit(t *testing.T) {
	ends := origin + limit.Time(2*second)
	brief := limit.Limit{Algorithm: limit.SlidingLog, Quota: 100, Period: 20 * second}
	other := leasing(brief)
	other.Name = "other"
	for _, others := range [][]*policy.Policy{nil, {other}} {
		for added, want := range map[limit.Time]uint64{ends - 1: 40, ends: 0} {
			set := func(p *policy.Policy) *policy.Set { return policy.NewSet(append([]*policy.Policy{p}, others...)) }
			w := newWorld(t, leasing(brief))
			o := &owner{world: w, overlay: map[string]Record{}}
			o.adopt(origin, w.policies)
			o.decide(origin, []Request{leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 40})})
			o.adopt(origin+1, set(onePolicy(brief)))
			o.adopt(origin+2, set(onePolicy(brief)))
			o.adopt(added, set(onePolicy(brief, leasable["calendar"])))
			for len(o.pending) > 0 {
				o.installOldest()
			}
			if used := w.usedOf(ends+limit.Time(21*second), "p", "k"); used[1] != want {
				t.Errorf("added at %d beside %d others: %d are used", added-origin, len(others), used)
			}
		}
	}
}

// unread is a view that must not be read as a whole.
type unread struct{ *world }

func (u unread) All() iter.Seq2[[]byte, Record] {
	u.Fatal("it reads every record")
	return nil
}

// A revision reads every record only if it changes the numbers of a policy that may have leases.
func TestARevisionOfOtherPoliciesReadsNoRecord(t *testing.T) {
	p, other, later := leasing(leasable["fixed"]), onePolicy(leasable["fixed"]), onePolicy(leasable["log"])
	other.Name, later.Name = "other", "other"
	w := newWorld(t, p, other)
	w.state.put(adoptPut(policy.Revision{Version: 1}, nil))
	w.lease(origin, "a", 40)
	for _, more := range []*policy.Policy{other, later} {
		set := policy.NewSet([]*policy.Policy{p, more})
		revision := policy.Revision{Version: 2, Set: set}
		if puts := Adopt(unread{w}, w.policies, revision, w.next(origin+1)); len(puts) != 1 {
			t.Errorf("%d effects", len(puts))
		}
	}
}

// The numbers of a revision are those of the tier that a leased key was last asked for with.
func TestARevisionKeepsTheTierOfALeasedKey(t *testing.T) {
	slow, quota := uint64(1), uint64(100)
	tiered := func(tier policy.TierLimit) *policy.Policy {
		p := leasing(leasable["tokens"])
		p.Tiers = map[string]policy.Tier{"slow": {Limits: map[string]policy.TierLimit{"a": tier}}}
		return p
	}
	w := newWorld(t, tiered(policy.TierLimit{Refill: &slow}))
	o := &owner{world: w, overlay: map[string]Record{}}
	o.adopt(origin, w.policies)
	lease := leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 40})
	lease.Entries[0].Tier = "slow"
	check := checkOf("p", "k", 50)
	check.Entries[0].Tier = "slow"
	o.decide(origin, []Request{check, lease})
	quota++
	o.adopt(origin+1, policy.NewSet([]*policy.Policy{tiered(policy.TierLimit{Refill: &slow, Quota: &quota})}))
	check.Op = Get
	then := o.decide(origin+limit.Time(10*second), []Request{check})[0]
	if then.Err != nil || then.Decision.Limits[0].Used != 80 { // not as if it had refilled at 10/s meanwhile
		t.Errorf("%+v", then)
	}
}

// So are those of a key that is forgotten.
func TestALeaseOfAForgottenKeyKeepsItsTier(t *testing.T) {
	slow := uint64(1)
	p := leasing(leasable["tokens"])
	p.Tiers = map[string]policy.Tier{"slow": {Limits: map[string]policy.TierLimit{"a": {Refill: &slow}}}}
	w := newWorld(t, p)
	lease, get := leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 40}), checkOf("p", "k", 1)
	lease.Entries[0].Tier, get.Entries[0].Tier, get.Op = "slow", "slow", Get
	w.must(origin, lease)
	w.forget(origin+1, "k")
	if used := w.must(origin+limit.Time(10*second), get).Limits[0].Used; used != 32 {
		t.Errorf("%d are used", used)
	}
}

// An override ends at its instant, before or after the end of a lease, also if no request asks for the key until later.
func TestALeaseIsCountedAtTheRateOfItsTime(t *testing.T) {
	for _, name := range []string{"tokens", "gcra"} {
		for _, c := range []struct {
			rate, other uint64
			until       limit.Span // of the override
			want        uint64     // used 10 s after the grant
		}{{1, 100, 10 * second, 32}, {100, 1, second, 32}, {1, 4, 8 * second, 26}} {
			l := leasable[name]
			l.Count = c.other
			w := newWorld(t, leasing(l))
			numbers := policy.TierLimit{Refill: &c.rate}
			if name == "gcra" {
				numbers = policy.TierLimit{Rate: &c.rate}
			}
			w.must(origin, Request{Op: PutOverride, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
				Adjustment: &Adjustment{
					Override: &policy.Override{Expires: origin + limit.Time(c.until),
						Limits: map[string]policy.TierLimit{"a": numbers}}}})
			w.lease(origin, "a", 40)
			if used := w.usedOf(origin+limit.Time(10*second), "p", "k")[0]; used != c.want {
				t.Errorf("%s: %d are used of %+v", name, used, c)
			}
		}
	}
}

func TestABlockedKeyIsNotLeased(t *testing.T) {
	w := newWorld(t, leasing(leasable["log"]))
	w.must(origin, Request{Op: Block, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
		Adjustment: &Adjustment{Until: origin + limit.Time(second)}})
	if got := w.lease(origin+1, "a", 1); got.Units != 0 {
		t.Errorf("granted %+v", got)
	}
	if got := w.lease(origin+limit.Time(second), "a", 1); got.Units != 1 {
		t.Errorf("then %+v", got)
	}
}

func TestALeaseCrossesThresholds(t *testing.T) {
	eachLeasable(t, func(t *testing.T, w *world, l limit.Limit) {
		p := leasing(l)
		p.Limits[0].Thresholds, p.Notify = []policy.Threshold{percent(50), percent(30)}, []string{"billing"}
		w.policies = policy.NewSet([]*policy.Policy{p})
		w.lease(origin+1, "a", 40)
		w.mustHaveFired(30)
		w.must(origin+2, checkOf("p", "k", 9))
		w.mustHaveFired(30)
		w.must(origin+3, checkOf("p", "k", 1))
		w.mustHaveFired(30, 50)
		w.returned(origin+4, "a", 40)
		w.must(origin+5, checkOf("p", "k", 9))
		w.mustHaveFired(30, 50)
	})
}

// A holder may spend what the backup does not know for 10 s after the restore, and stops within 500 ms of that.
func TestLostLeasesAreSpentAfterARestore(t *testing.T) {
	at := origin + limit.Time(hour)
	late := at + limit.Time(10*second+500*millisecond)
	until := map[string]limit.Time{"fixed": at + limit.Time(minute), "sliding": 0, "calendar": at + limit.Time(hour),
		"first hit": late + limit.Time(minute), "buckets": late + limit.Time(minute) - limit.Time(500*millisecond),
		"log": late + limit.Time(minute), "tokens": late + limit.Time(second/10), "gcra": late + limit.Time(second/10)}
	eachLeasable(t, func(t *testing.T, w *world, l limit.Limit) {
		w.must(origin, checkOf("p", "other", 1))
		w.goBack(w.backup(), at)
		name := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		for n, full := range until {
			if strings.ReplaceAll(n, " ", "_") == name && full != 0 {
				w.room(full-1, 0)
				w.must(full, checkOf("p", "k", 1))
			}
		}
	})
}

// A holder that lives on spends a lost lease of all that there was as late as it may. With what the restored shard
// admits from then on, that is never more than the limit.
func TestALostLeaseAndWhatFollowsStayWithinTheLimit(t *testing.T) {
	at := origin + limit.Time(hour+30*second) // in a window, before whose end the lease ends
	eachLeasable(t, func(t *testing.T, w *world, l limit.Limit) {
		w.goBack(w.backup(), at)
		judge := &realJudge{l: l, starts: at - 1}
		judge.spend(at+limit.Time(9900*millisecond), 100, 100)
		all, admitted := checkOf("p", "k", 100), uint64(0)
		all.Op = Partial
		for now := judge.all[0].At; now < at+limit.Time(3*minute); now += limit.Time(50 * millisecond) {
			d := w.must(now, all)
			if d.Allowed {
				judge.starts = d.Limits[0].WindowStart
			}
			admitted += d.Limits[0].Granted
			if problem := judge.spend(now, d.Limits[0].Granted, 100); problem != "" {
				t.Fatalf("at %d: %s", now-at, problem)
			}
		}
		if l.Algorithm != limit.Calendar && admitted < 100 { // its window is an hour
			t.Errorf("%d units were admitted after the restore", admitted)
		}
	})
}

// A lease of the backup that ends before the restore does not make a bucket fill earlier.
func TestALeaseOfTheBackupRefillsNothing(t *testing.T) {
	at := origin + limit.Time(minute)
	for _, name := range []string{"tokens", "gcra"} {
		w := newWorld(t, leasing(leasable[name]))
		w.must(origin, checkOf("p", "k", 90))
		w.lease(origin, "a", 1)
		debt := Request{Op: AddUsed, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
			Adjustment: &Adjustment{Amount: 10_000}}
		w.must(origin, debt)
		w.goBack(w.backup(), at)
		w.wantUsed(at+limit.Time(second), "p", "k", 10_091-610)
	}
}

// A change by hand, and a look, say what holders may still admit of the key, and until when.
func TestAChangeSaysUntilWhenLeasesLast(t *testing.T) {
	quota := uint64(7)
	ends := origin + limit.Time(2*second)
	for op, a := range map[Op]*Adjustment{Get: nil, Reset: nil, SetUsed: {}, AddUsed: {Amount: 1},
		Block: {Until: origin + limit.Time(minute)}, Unblock: {},
		PutOverride: {Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}} {
		w := newWorld(t, leasing(leasable["log"]))
		ask := Request{Op: op, Namespace: "default", Entries: checkOf("p", "k", 1).Entries, Adjustment: a}
		if d := w.must(origin, ask); d.System != nil {
			t.Errorf("%d, before: %+v", op, d.System)
		}
		w.must(origin, Request{Op: Unblock, Namespace: "default", Entries: ask.Entries, Adjustment: &Adjustment{}})
		w.must(origin, Request{Op: DeleteOverride, Namespace: "default", Entries: ask.Entries,
			Adjustment: &Adjustment{}})
		w.must(origin, leaseOf("k", LeaseTerms{Holder: "b", Number: 1, Units: 2}))
		units := uint64(2)
		w.must(origin+1, leaseOf("k", LeaseTerms{Holder: "a", Number: 1, Units: 3}))
		units += 3
		if d := w.must(origin+2, ask); d.System == nil || d.System.Lease == nil ||
			*d.System.Lease != (Leased{units, ends + 1}) {
			t.Errorf("%d: %+v", op, d.System)
		}
		w.returned(origin+3, "a", 0)
		if d := w.must(origin+4, ask); d.System == nil || *d.System.Lease != (Leased{2, ends}) {
			t.Errorf("%d, one is returned: %+v", op, d.System)
		}
		if d := w.must(ends, ask); d.System != nil {
			t.Errorf("%d, at the end: %+v", op, d.System)
		}
	}
}

func TestALeaseThatMakesNoSenseIsRefused(t *testing.T) {
	p := onePolicy(leasable["log"])
	p.Name = "q"
	w := newWorld(t, leasing(leasable["log"]), p)
	ask := func(terms LeaseTerms) Request { return leaseOf("k", terms) }
	of := func(policy string) Request {
		r := ask(LeaseTerms{Holder: "a", Number: 1, Units: 1})
		r.Entries[0].Policy = policy
		return r
	}
	named := of("p")
	named.ID = "id"
	inline := of("p")
	inline.Entries[0].Limits = p.Limits
	for field, r := range map[string]Request{"system": {Op: Lease, Namespace: "default", Entries: of("p").Entries},
		"holder": ask(LeaseTerms{Number: 1, Units: 1}), "units": ask(LeaseTerms{Holder: "a", Number: 1}),
		"number": ask(LeaseTerms{Holder: "a"}), "entries[0].policy": of("q"), "idempotency_id": named,
		"entries": inline} {
		if err := w.refused(origin, r); err.Code != Invalid || err.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
