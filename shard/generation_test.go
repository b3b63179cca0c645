package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// fullAgain are limits of 10 that are full again one second after they were empty.
var fullAgain = map[string]limit.Limit{
	"token bucket": {Algorithm: limit.TokenBucket, Quota: 10, Count: 10, Period: second, Initial: 10},
	"gcra":         {Algorithm: limit.GCRA, Quota: 10, Count: 10, Period: second},
}

// admits takes units one by one until one is denied, and returns how many were admitted.
func (w *world) admits(now limit.Time) (n int) {
	w.Helper()
	for w.must(now, checkOf("p", "k", 1)).Allowed {
		n++
		now++
	}
	return n
}

func revised(p *policy.Policy, change func(*policy.Policy)) *policy.Set {
	next := *p
	next.Limits = append([]policy.Limit(nil), p.Limits...)
	change(&next)
	return policy.NewSet([]*policy.Policy{&next})
}

// The units taken from a bucket have come back on their own when it is full: a refund does not give them back again.
func TestARefundGivesNothingToABucketThatIsFullAgain(t *testing.T) {
	for name, l := range fullAgain {
		w := newWorld(t, onePolicy(l))
		r := checkOf("p", "k", 10)
		d := w.must(origin+1, r)
		now := origin + 1 + limit.Time(minute)
		n := w.admits(now)
		w.must(now+20, settleOf(r, d, Settlement{Action: ActionCancel}))
		if m := w.admits(now + 30); n+m > 11 {
			t.Errorf("%s: %d, and %d after the refund", name, n, m)
		}
	}
}

// The same with a hold, the usual case of a refund, on a bucket that is emptied again and again and so is never at
// rest.
func TestTheEndOfAHoldGivesNothingBackThatCameBack(t *testing.T) {
	for name, l := range fullAgain {
		for ending, s := range map[string]Settlement{"cancelled": {Action: ActionCancel},
			"settled for less": {Action: ActionCommit, Actual: []uint64{1}}, "expired": {}} {
			w := newWorld(t, onePolicy(l))
			r := Request{Op: Reserve, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 10}},
				Hold: &HoldTerms{TTL: 2 * second}}
			d := w.must(origin+1, r)
			n, now := 0, origin+limit.Time(second/2)
			for ; now < origin+limit.Time(2*second); now += limit.Time(second / 10) {
				n += w.admits(now)
			}
			if s.Action != 0 {
				w.must(now, settleOf(r, d, s))
			}
			if n += w.admits(now + 2); n > 10+15+1 {
				t.Errorf("%s, %s: %d in 1.5 s", name, ending, n)
			}
		}
	}
}

// An immediate refund gives everything back.
func TestARefundAtOnceGivesEverythingBack(t *testing.T) {
	for name, l := range fullAgain {
		w := newWorld(t, onePolicy(l))
		r := checkOf("p", "k", 10)
		d := w.must(origin+1, r)
		w.must(origin+2, settleOf(r, d, Settlement{Action: ActionCancel}))
		if n := w.admits(origin + 3); n != 10 {
			t.Errorf("%s: %d admitted, it should be 10", name, n)
		}
	}
}

// The limit of that name has become a different one, which has never counted the old one's units.
func TestARefundReachesNoLimitOfAnotherKind(t *testing.T) {
	kinds := map[string]limit.Limit{
		"window":  {Algorithm: limit.FixedWindow, Quota: 10, Period: minute},
		"buckets": {Algorithm: limit.SlidingBuckets, Quota: 10, Period: minute, Bucket: second},
		"log":     {Algorithm: limit.SlidingLog, Quota: 10, Period: minute},
		"bucket":  {Algorithm: limit.TokenBucket, Quota: 10, Count: 10, Period: minute, Initial: 10},
		"gcra":    {Algorithm: limit.GCRA, Quota: 10, Count: 10, Period: minute},
		"slower":  {Algorithm: limit.GCRA, Quota: 10, Count: 10, Period: hour},
		"hour":    {Algorithm: limit.FixedWindow, Quota: 10, Period: hour},
		"day":     {Algorithm: limit.SlidingWindow, Quota: 10, Period: day},
		"ever":    {Algorithm: limit.Lifetime, Quota: 10},
	}
	for from, old := range kinds {
		for to, l := range kinds {
			for name, wait := range map[string]limit.Span{"at rest": minute + 1, "in use": 1} {
				if from == to {
					continue
				}
				p := onePolicy(old)
				w := newWorld(t, p)
				r := checkOf("p", "k", 8)
				d := w.must(origin+1, r)
				now := origin + limit.Time(wait) + 1
				w.policies = revised(p, func(p *policy.Policy) { p.Limits[0].Limit = l })
				n := w.admits(now)
				w.must(now+1000, settleOf(r, d, Settlement{Action: ActionCancel}))
				if old.Algorithm == limit.FixedWindow && l.Algorithm == limit.FixedWindow && wait == 1 {
					continue // the open window is still the one that has counted it
				}
				if m := w.admits(now + 2000); n+m > 11 {
					t.Errorf("from %s, %s, to %s: %d, and %d after the refund", from, name, to, n, m)
				}
			}
		}
	}
}

// on_change applies to a new revision. Callers that alternate between two tiers for one key get no more than the larger
// of them, whatever else they do.
func TestAlternatingTiersAdmitNoMoreThanTheLargest(t *testing.T) {
	for _, on := range []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive, policy.Restart} {
		p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: hour})
		ten := uint64(10)
		p.OnChange, p.Tiers = on,
			map[string]policy.Tier{"pro": {Limits: map[string]policy.TierLimit{"a": {Quota: &ten}}}, "free": {}}
		w := newWorld(t, p)
		admitted := uint64(0)
		for i := range 1000 {
			r := checkOf("p", "k", 1+uint64(i%5))
			r.Entries[0].Tier = []string{"free", "pro", "pro"}[i%3]
			if i%7 == 0 {
				r.Op = Count // which is never denied, and makes debts
			}
			if d := w.must(origin+limit.Time(i+1), r); d.Allowed && r.Op == Check {
				admitted += r.Entries[0].Cost
			}
		}
		if admitted > 10 {
			t.Errorf("on_change %d: %d units of 10 in one window", on, admitted)
		}
	}
}

// An override is not a revision: used units stay used when it is put, replaced, deleted or expires.
func TestOverridesDoNotBeginAnew(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour})
	p.OnChange = policy.Restart
	w := newWorld(t, p)
	w.must(origin+1, checkOf("p", "k", 4))
	put := func(now limit.Time, quota uint64, expires limit.Time) {
		w.must(now, adjustOf(PutOverride, "p", "k", Adjustment{
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}, Expires: expires}}))
	}
	put(origin+2, 20, 0)
	w.wantUsed(origin+3, "p", "k", 4)
	w.must(origin+4, checkOf("p", "k", 1))
	put(origin+5, 30, 0)
	w.wantUsed(origin+6, "p", "k", 5)
	w.must(origin+7, checkOf("p", "k", 1))
	w.must(origin+8, adjustOf(DeleteOverride, "p", "k", Adjustment{}))
	w.wantUsed(origin+9, "p", "k", 6)
	put(origin+10, 40, origin+20)
	w.must(origin+11, checkOf("p", "k", 1))
	w.wantUsed(origin+21, "p", "k", 7)
	w.must(origin+22, checkOf("p", "k", 1))
	w.wantUsed(origin+23, "p", "k", 8)
}

// A revision has met a key that was only read: the former usage does not come back with the old numbers, nor does a
// refund of it.
func TestWhatBeganAnewWhileItWasReadStaysNew(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: hour})
	p.OnChange = policy.Restart
	w := newWorld(t, p)
	r := checkOf("p", "k", 60)
	d := w.must(origin+1, r)
	now := origin + 2
	for _, quota := range []uint64{250, 50, 100} {
		w.policies = revised(p, func(p *policy.Policy) { p.Limits[0].Quota = quota })
		w.wantUsed(now, "p", "k", 0)
		now++
	}
	w.must(now+1, checkOf("p", "k", 10))
	w.must(now+2, settleOf(r, d, Settlement{Action: ActionCancel}))
	w.wantUsed(now+3, "p", "k", 10)
}

// Units that are counted past the quota are all counted, even by a bucket, and the wait for them is exact to the
// microsecond. Units of denied requests are not, since no caller asked to be charged with them.
func TestADebtOfABucketIsAllCounted(t *testing.T) {
	for name, l := range fullAgain {
		w := newWorld(t, onePolicy(l))
		count := checkOf("p", "k", 1000)
		count.Op = Count
		if d := w.must(origin+1, count); d.Limits[0].Used != 1000 || d.Limits[0].Remaining != 0 || d.Limits[0].Allowed {
			t.Errorf("%s: %+v", name, d.Limits[0])
		}
		now := origin + 2
		d := w.must(now, checkOf("p", "k", 10))
		if d.Allowed || d.RetryAfter != 100*second-1 {
			t.Errorf("%s: %+v", name, d)
		}
		at := now + limit.Time(d.RetryAfter)
		if w.must(at-1, checkOf("p", "k", 10)).Allowed || !w.must(at, checkOf("p", "k", 10)).Allowed {
			t.Errorf("%s: not admitted when it said", name)
		}
		r := Request{Op: Reserve, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "other", Cost: 1}},
			Hold: &HoldTerms{TTL: hour}}
		held := w.must(at+1, r)
		w.must(at+1, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{500}, Overage: OverageDebt}))
		w.wantUsed(at+1, "p", "other", 500)

		p := onePolicy(l)
		p.CountDenied = true
		w = newWorld(t, p)
		for i := range limit.Time(100) {
			w.must(origin+1+i, checkOf("p", "k", 10))
		}
		w.wantUsed(origin+101, "p", "k", 20)
	}
}

// A tier that lifts a bucket charges it with at most two fillings. Units that were not counted are not given back,
// since they would be other decisions' units.
func TestALiftedBucketGivesBackNothingThatItDidNotCount(t *testing.T) {
	for name, l := range fullAgain {
		for _, op := range []Op{Check, Partial, Reserve} {
			p := onePolicy(l)
			p.Tiers = map[string]policy.Tier{"free": {Unlimited: true}}
			w := newWorld(t, p)
			if n := w.admits(origin + 1); n != 10 {
				t.Fatalf("%s: %d of 10 were admitted", name, n)
			}
			r := checkOf("p", "k", 1000)
			r.Op, r.Entries[0].Tier = op, "free"
			if op == Reserve {
				r.Hold = &HoldTerms{TTL: minute}
			}
			d := w.must(origin+20, r)
			w.must(origin+21, settleOf(r, d, Settlement{Action: ActionCancel}))
			if n := w.admits(origin + 22); n > 0 {
				t.Errorf("%s, op %d: %d more of 10 were admitted", name, op, n)
			}
		}
	}
}

// The same for a bucket with a saturated count, at 2^62 parts of a unit.
func TestABucketThatCountsNoFurtherGivesBackNothing(t *testing.T) {
	for name, l := range fullAgain {
		l.Count, l.Period = 1, 30*day
		w := newWorld(t, onePolicy(l))
		if n := w.admits(origin + 1); n != 10 {
			t.Fatalf("%s: %d of 10 were admitted", name, n)
		}
		r := checkOf("p", "k", limit.MaxCost)
		r.Op = Count
		d := w.must(origin+20, r)
		w.must(origin+21, settleOf(r, d, Settlement{Action: ActionCancel}))
		if n := w.admits(origin + 22); n > 0 {
			t.Errorf("%s: %d more of 10 were admitted", name, n)
		}
	}
}

// When an override comes or goes, used units stay used: only a revision may forgive them.
func TestAnOverrideForgivesNothing(t *testing.T) {
	ten := uint64(10)
	for _, on := range []policy.OnChange{policy.AsIs, policy.Additive, policy.Restart} {
		for _, expires := range []limit.Time{0, origin + 10} {
			p := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 100})
			p.OnChange = on
			w := newWorld(t, p)
			w.must(origin+1, checkOf("p", "k", 50))
			put := Request{Op: PutOverride, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
				Adjustment: &Adjustment{
					Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &ten}},
						Expires: expires}}}
			w.must(origin+2, put)
			count := checkOf("p", "k", 1)
			count.Op = Count // under the override's numbers
			w.must(origin+3, count)
			if expires == 0 {
				put.Op, put.Adjustment = DeleteOverride, &Adjustment{}
				w.must(origin+4, put)
			}
			w.wantUsed(origin+20, "p", "k", 51)
		}
	}
}

// A retention that is lowered and raised again makes old ids good again: what they would give back was replaced all the
// same.
func TestAMarkOutlivesALoweredRetention(t *testing.T) {
	const usual = policy.DefaultRetention
	for retention, lowered := range map[limit.Span]limit.Span{usual: second, day: usual} {
		p := billed(limit.Limit{Algorithm: limit.Lifetime, Quota: 10})
		p.Meter, p.Retention = nil, retention
		w := newWorld(t, p)
		r := checkOf("p", "k", 5)
		d := w.must(origin+1, r)
		w.must(origin+2, Request{Op: SetUsed, Namespace: "default", Entries: r.Entries,
			Adjustment: &Adjustment{Amount: 10, Actor: "kim"}})
		metered := revised(p, func(p *policy.Policy) { p.Meter = billed().Meter })
		w.policies = revised(p, func(p *policy.Policy) { p.Retention, p.Meter = lowered, billed().Meter })
		at := origin + limit.Time(lowered)
		for range 2 {
			at += limit.Time(minute)
			w.must(at, Request{Op: Count, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}})
		}
		w.policies = metered
		at += limit.Time(minute)
		w.must(at, settleOf(r, d, Settlement{Action: ActionCancel}))
		w.wantUsed(at+1, "p", "k", 12)
		w.wantBills(at+2, "k", [3]uint64{0, 2, 0})
	}
}
