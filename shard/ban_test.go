package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// bans are limits with a quota of 0, for every algorithm that has a quota.
var bans = func() (bans []limit.Limit) {
	utc, err := limit.LoadZone("")
	if err != nil {
		panic(err)
	}
	for _, l := range []limit.Limit{
		{Algorithm: limit.FixedWindow, Period: hour}, {Algorithm: limit.FixedWindowFirstHit, Period: hour},
		{Algorithm: limit.SlidingWindow, Period: hour}, {Algorithm: limit.SlidingBuckets, Period: hour, Bucket: minute},
		{Algorithm: limit.SlidingLog, Period: hour}, {Algorithm: limit.TokenBucket, Count: 1, Period: hour},
		{Algorithm: limit.GCRA, Count: 1, Period: hour}, {Algorithm: limit.Lifetime}, {Algorithm: limit.Concurrency},
		{Algorithm: limit.Calendar, Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: utc}},
	} {
		if err := l.Validate(); err != nil {
			panic(err)
		}
		bans = append(bans, l)
	}
	return bans
}()

// TestAQuotaOfNothingDeniesEverything: forever, for every operation, and whatever was counted on it.
func TestAQuotaOfNothingDeniesEverything(t *testing.T) {
	for _, l := range bans {
		w := newWorld(t, onePolicy(l))
		for i, op := range []Op{Check, Reserve, Partial, Peek, Count, Check, Partial} {
			r := checkOf("p", "k", 1)
			r.Op = op
			if op == Reserve {
				r.Hold = &HoldTerms{TTL: minute}
			}
			now := origin + limit.Time(i)*limit.Time(day)
			switch d := w.must(now, r); {
			case op == Count && (!d.Allowed || d.Limits[0].Allowed):
				t.Errorf("algorithm %d: counted: %+v", l.Algorithm, d)
			case op != Count && (d.Allowed || d.RetryAfter != limit.Never || d.Limits[0].Remaining != 0 ||
				d.Index != 0):
				t.Errorf("algorithm %d, op %d: %+v", l.Algorithm, op, d)
			}
		}
		w.wantUsed(origin+limit.Time(100*day), "p", "k", w.usedOf(origin+limit.Time(100*day), "p", "k")...)
	}
}

// TestABannedKeyIsFreeAgain: when its override or its tier ends, for every on_change, and with its former usage.
func TestABannedKeyIsFreeAgain(t *testing.T) {
	zero := uint64(0)
	ban := policy.TierLimit{Quota: &zero}
	for _, l := range []limit.Limit{{Algorithm: limit.FixedWindow, Quota: 5, Period: day},
		{Algorithm: limit.Lifetime, Quota: 5},
		{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 5},
		{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 4}} {
		for _, on := range []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive, policy.Restart} {
			p := onePolicy(l)
			p.OnChange = on
			p.Tiers = map[string]policy.Tier{"banned": {Limits: map[string]policy.TierLimit{"a": ban}}}
			w := newWorld(t, p)
			w.must(origin+1, checkOf("p", "k", 3))
			banned := checkOf("p", "k", 1)
			banned.Entries[0].Tier = "banned"
			if d := w.must(origin+2, banned); d.Allowed || d.RetryAfter != limit.Never || d.Limits[0].Quota != 0 {
				t.Errorf("algorithm %d, on_change %d: in the tier: %+v", l.Algorithm, on, d)
			}
			put := adjustOf(PutOverride, "p", "k", Adjustment{
				Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": ban}}})
			w.must(origin+3, put)
			if d := w.must(origin+4, checkOf("p", "k", 1)); d.Allowed || d.RetryAfter != limit.Never {
				t.Errorf("algorithm %d, on_change %d: with the override: %+v", l.Algorithm, on, d)
			}
			count := checkOf("p", "k", 1)
			count.Op = Count
			w.must(origin+5, count)
			put.Op, put.Adjustment = DeleteOverride, &Adjustment{}
			w.must(origin+6, put)
			if d := w.must(origin+7, checkOf("p", "k", 2)); d.Allowed {
				t.Errorf("algorithm %d, on_change %d: 6 of 5 were admitted", l.Algorithm, on)
			}
			if d := w.must(origin+8, checkOf("p", "k", 1)); (l.Algorithm != limit.TokenBucket ||
				l.Initial == l.Quota) && !d.Allowed {
				t.Errorf("algorithm %d, on_change %d: not free again: %+v", l.Algorithm, on, d)
			}
		}
	}
}

// TestAnUnknownKeyIsRefused: nothing is counted until the key has an override. Changes by hand are not refused, nor is
// the settlement of units that it took while it was known.
func TestAnUnknownKeyIsRefused(t *testing.T) {
	p, open := onePolicy(lifetimeOf(10)), onePolicy(lifetimeOf(10))
	p.UnknownKey, open.Name = policy.UnknownKeyDeny, "open"
	p.Tiers = map[string]policy.Tier{"pro": {}}
	w := newWorld(t, p, open)
	refusals := func(now limit.Time) {
		t.Helper()
		for _, op := range []Op{Check, Count, Partial, Reserve, Peek, Get} {
			r := checkOf("open", "k", 1)
			r.Op, r.Entries = op, append(r.Entries, Entry{Policy: "p", Key: "k", Cost: 1})
			if op == Reserve {
				r.Hold = &HoldTerms{TTL: minute}
			}
			if err := w.refused(now, r); err.Code != KeyNotFound || err.Field != "entries[1].key" {
				t.Errorf("op %d: %v", op, err)
			}
		}
		w.wantUsed(now, "open", "k", 0)
	}
	refusals(origin + 1)
	adjust := func(now limit.Time, op Op, a Adjustment) Decision {
		return w.must(now, Request{Op: op, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}},
			Adjustment: &a})
	}
	adjust(origin+2, DeleteOverride, Adjustment{})
	adjust(origin+2, Block, Adjustment{Until: origin + 3})
	adjust(origin+3, PutOverride, Adjustment{Override: &policy.Override{Tier: "pro", Expires: origin + 10}})
	held := w.must(origin+4, reserveOf(Entry{Policy: "p", Key: "k", Cost: 4}))
	if !held.Allowed {
		t.Errorf("known: %+v", held)
	}
	refusals(origin + 10)
	w.must(origin+11, settleOf(reserveOf(Entry{Policy: "p", Key: "k", Cost: 4}), held,
		Settlement{Action: ActionCommit, Actual: []uint64{3}}))
	adjust(origin+12, AddUsed, Adjustment{Amount: 1})
	adjust(origin+13, PutOverride, Adjustment{Override: &policy.Override{Tier: "pro"}})
	w.wantUsed(origin+14, "p", "k", 4)
}
