package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TestWhatIsSetIsUsed: of every algorithm exactly so many units, and what a refund of before would give back is gone.
func TestWhatIsSetIsUsed(t *testing.T) {
	utc, err := limit.LoadZone("")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]limit.Limit{
		"fixed":    {Algorithm: limit.FixedWindow, Quota: 100, Period: hour},
		"first":    {Algorithm: limit.FixedWindowFirstHit, Quota: 100, Period: hour},
		"sliding":  {Algorithm: limit.SlidingWindow, Quota: 100, Period: hour},
		"buckets":  {Algorithm: limit.SlidingBuckets, Quota: 100, Period: hour, Bucket: minute},
		"log":      {Algorithm: limit.SlidingLog, Quota: 100, Period: hour},
		"bucket":   {Algorithm: limit.TokenBucket, Quota: 100, Count: 1, Period: hour, Initial: 100},
		"gcra":     {Algorithm: limit.GCRA, Quota: 100, Count: 1, Period: hour},
		"lifetime": {Algorithm: limit.Lifetime, Quota: 100},
		"calendar": {Algorithm: limit.Calendar, Quota: 100, Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: utc}},
	} {
		w := newWorld(t, onePolicy(l))
		adjust := func(op Op, n int64) Request {
			return Request{Op: op, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}}, Adjustment: &Adjustment{Amount: n}}
		}
		r := checkOf("p", "k", 60)
		decided := w.must(origin+1, r)
		for i, c := range []struct {
			request Request
			want    uint64
		}{
			{adjust(SetUsed, 70), 70}, {settleOf(r, decided, Settlement{Action: ActionCancel}), 70}, {adjust(AddUsed, 20), 90},
			{adjust(AddUsed, -40), 50}, {adjust(AddUsed, 70), 120}, {adjust(SetUsed, 101), 101}, {adjust(AddUsed, -200), 0},
			{adjust(SetUsed, 0), 0}, {adjust(Reset, 0), 0},
		} {
			d := w.must(origin+2, c.request)
			if got := d.Limits[0].Used; got != c.want || d.Index == 0 {
				t.Errorf("%s: after step %d %d are used, it should be %d", name, i, got, c.want)
			}
			w.wantUsed(origin+2, "p", "k", c.want)
		}
	}
}

// TestABlockByHand denies whatever the limits say, under a policy without a lockout too, until it ends or is taken away.
func TestABlockByHand(t *testing.T) {
	p := onePolicy(lifetimeOf(100))
	w := newWorld(t, p)
	until := origin + limit.Time(hour)
	block := Request{Op: Block, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}}, Adjustment: &Adjustment{Until: until}}
	if d := w.must(origin, block); d.Limits[0].BlockedUntil != until || !d.Limits[0].Blocked {
		t.Errorf("blocked: %+v", d.Limits[0])
	}
	if d := w.must(until-1, checkOf("p", "k", 1)); d.Allowed || d.RetryAfter != 1 {
		t.Errorf("in the last microsecond: %+v", d)
	}
	if d := w.must(until, checkOf("p", "k", 1)); !d.Allowed {
		t.Errorf("when it has ended: %+v", d)
	}
	block.Adjustment = &Adjustment{Until: until + limit.Time(hour)}
	w.must(until, block)
	block.Op, block.Adjustment = Unblock, &Adjustment{}
	if d := w.must(until, block); d.Limits[0].BlockedUntil != 0 {
		t.Errorf("unblocked: %+v", d.Limits[0])
	}
	if d := w.must(until, checkOf("p", "k", 1)); !d.Allowed {
		t.Errorf("unblocked: %+v", d)
	}
}

// TestAnOverrideIsTheKeysOwn: neither the caller who changes it afterwards nor another key has a part in it.
func TestAnOverrideIsTheKeysOwn(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	twenty := uint64(20)
	o := &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &twenty}}}
	put := Request{Op: PutOverride, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}}, Adjustment: &Adjustment{Override: o}}
	results, _ := w.batch(origin, put, checkOf("p", "k", 20), checkOf("p", "other", 11))
	delete(o.Limits, "a")
	if !results[1].Decision.Allowed || results[2].Decision.Allowed {
		t.Errorf("got %+v", results)
	}
	if d := w.must(origin+1, checkOf("p", "k", 1)); d.Allowed || d.Limits[0].Quota != 20 {
		t.Errorf("got %+v", d)
	}
	put.Op, put.Adjustment = DeleteOverride, &Adjustment{}
	if d := w.must(origin+2, put); d.Index == 0 || d.Limits[0].Quota != 10 {
		t.Errorf("deleted: %+v", d)
	}
	if d := w.must(origin+2, put); d.Index != 0 {
		t.Errorf("deleted what was not there: %+v", d)
	}
}
