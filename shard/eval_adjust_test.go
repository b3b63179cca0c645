package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TestWhatIsSetIsUsed: SetUsed leaves exactly this many units used, for every algorithm, and earlier decisions refund
// nothing.
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
			return adjustOf(op, "p", "k", Adjustment{Amount: n})
		}
		r := checkOf("p", "k", 60)
		decided := w.must(origin+1, r)
		for i, c := range []struct {
			request Request
			want    uint64
		}{
			{adjust(SetUsed, 70), 70}, {settleOf(r, decided, Settlement{Action: ActionCancel}), 70},
			{adjust(AddUsed, 20), 90},
			{adjust(AddUsed, -40), 50}, {adjust(AddUsed, 70), 120}, {adjust(SetUsed, 101), 101},
			{adjust(AddUsed, -200), 0},
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

// TestABlockByHand: a block denies whatever the limits say, even without a lockout, until it ends or is removed.
func TestABlockByHand(t *testing.T) {
	p := onePolicy(lifetimeOf(100))
	w := newWorld(t, p)
	until := origin + limit.Time(hour)
	block := adjustOf(Block, "p", "k", Adjustment{Until: until})
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

// TestABlockByHandDeniesInShadowToo: a policy in shadow, and its ladder, only watch, but a block by hand is deliberate.
func TestABlockByHandDeniesInShadowToo(t *testing.T) {
	p := onePolicy(lifetimeOf(100))
	p.Shadow, p.Lockout = true, &policy.Lockout{After: 1, Base: hour, Factor: 1, Max: hour, ForgiveAfter: day}
	w := newWorld(t, p)
	held := w.must(origin, reserveOf(Entry{Policy: "p", Key: "k", Cost: 1}))
	w.must(origin+1, settleOf(reserveOf(Entry{Policy: "p", Key: "k", Cost: 1}), held, Settlement{Action: ActionFailed}))
	ladder := origin + 1 + limit.Time(hour)
	if d := w.must(origin+2, checkOf("p", "k", 1)); !d.Allowed || !d.ShadowDenied || d.Limits[0].Blocked ||
		d.Limits[0].BlockedUntil != ladder {
		t.Errorf("blocked by the ladder in shadow: %+v", d)
	}
	until := origin + limit.Time(minute)
	w.must(origin+3, adjustOf(Block, "p", "k", Adjustment{Until: until}))
	d := w.must(origin+4, checkOf("p", "k", 1))
	if s := d.Limits[0]; d.Allowed || d.RetryAfter != limit.Span(until-origin-4) || !s.Blocked || !s.ByHand ||
		s.BlockedUntil != until {
		t.Errorf("blocked by hand: %+v", d)
	}
	if d := w.must(until, checkOf("p", "k", 1)); !d.Allowed || d.Limits[0].ByHand {
		t.Errorf("when it has ended: %+v", d)
	}
}

func TestABlockByHandIsToldFromTheLaddersOwn(t *testing.T) {
	p := onePolicy(lifetimeOf(100))
	p.Lockout = &policy.Lockout{After: 1, Base: 1, Factor: 1, Max: 1, ForgiveAfter: day}
	w := newWorld(t, p)
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 1})
	w.must(origin+1, settleOf(r, w.must(origin, r), Settlement{Action: ActionFailed}))
	w.must(origin+3, Request{Op: Block, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}},
		Adjustment: &Adjustment{Until: origin + limit.Time(hour)}})
	check := checkOf("p", "k", 1)
	d := w.must(origin+4, check)
	s := d.Limits[0]
	if !s.Blocked || s.LockoutLevel != 1 || !s.ByHand {
		t.Errorf("%+v", s)
	}
	kept, same, err := decodeAnswer(encodeAnswer(&check, &d), &check)
	if err != nil || !same || kept.Limits[0] != s {
		t.Errorf("kept as %+v, %v", kept.Limits, err)
	}
}

// TestWhatOnlyHoldsCountOnIsNotSet: setting a concurrency limit is refused.
func TestWhatOnlyHoldsCountOnIsNotSet(t *testing.T) {
	running := limit.Limit{Algorithm: limit.Concurrency, Quota: 5}
	w := newWorld(t, onePolicy(running, running))
	for _, op := range []Op{SetUsed, AddUsed} {
		for _, name := range []string{"", "a", "b"} {
			r := Request{Op: op, Namespace: "default", Limit: name, Entries: []Entry{{Policy: "p", Key: "k"}},
				Adjustment: &Adjustment{Amount: 3}}
			if err := w.refused(origin, r); err.Code != Invalid || err.Field != "limit" {
				t.Errorf("%d of %q: %v", op, name, err)
			}
		}
	}
}

// TestAnOverrideIsTheKeysOwn: neither a later change by the caller nor another key affects it.
func TestAnOverrideIsTheKeysOwn(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	twenty := uint64(20)
	o := &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &twenty}}}
	put := adjustOf(PutOverride, "p", "k", Adjustment{Override: o})
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
