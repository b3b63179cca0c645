package shard

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// everyExtra returns a counter that uses every field of a record.
func everyExtra() *counter {
	quota, refill, rate := uint64(1)<<53, uint64(7), uint64(0)
	used, _ := limit.Take(windowLimit, limit.State{}, 9, origin)
	running := limit.Limit{Algorithm: limit.Concurrency, Quota: 10}
	held, _ := limit.Take(running, limit.State{}, 5, origin)
	return &counter{key: "k",
		policy: &policy.Policy{Retention: hour,
			Lockout: &policy.Lockout{After: 3, Base: second, Factor: 2, Max: hour, ForgiveAfter: day}},
		limits: []counted{{"minute", windowLimit, used, origin - 5, false}, {"running", running, held, 0, false},
			{"rest", logLimit, limit.State{}, origin, false}},
		extras: &counterExtras{
			holds: []hold{
				{name: holdName(stamp.Position, 1000), expires: origin + 1, taken: origin, cost: 1 << 40,
					onExpire: policy.OnExpireCancel},
				{name: holdName(stamp.Position, 1001), expires: origin + 1, taken: origin - 9, cost: 3,
					onExpire: policy.OnExpireCommit, fresh: true, uncounted: []string{"minute", ""}},
				{name: operationHold("0199"), expires: origin + 2, taken: origin, cost: 2,
					onExpire: policy.OnExpireCancel, remote: true},
			},
			ladder: ladder{failures: 5, level: 3, blockedUntil: origin + 4_000_000, lastViolation: origin},
			block:  origin + 7_000_000,
			override: &policy.Override{Tier: "gold", Expires: origin + limit.Time(day),
				Limits: map[string]policy.TierLimit{
					"minute": {Quota: &quota}, "rest": {Refill: &refill, Rate: &rate}, "none": {}}},
		}}
}

// leasedCounter returns a counter with a lease.
func leasedCounter() *counter {
	c := &counter{policy: inlinePolicy, limits: []counted{{name: "a", limit: windowLimit}}}
	c.addHold(hold{name: leaseName("n1", 7), expires: origin + 2_000_000, taken: origin, cost: 40,
		onExpire: policy.OnExpireCommit, lease: true})
	return c
}

// These bytes are stored in users' logs and snapshots: a change needs a new format number, and a reader for the old
// one.
func TestGoldenBytesOfExtras(t *testing.T) {
	text := ""
	show := func(name string, b []byte) {
		text += name + "\n"
		for len(b) > 0 {
			n := min(len(b), 32)
			text += fmt.Sprintf("  %x\n", b[:n])
			b = b[n:]
		}
	}
	show("counter", everyExtra().encode(origin).Value)
	for _, bare := range []*counterExtras{
		{ladder: ladder{blockedUntil: origin + 1}},
		{block: origin + 1},
		{override: &policy.Override{Tier: "gold"}},
		{holds: everyExtra().extras.holds[:1]},
	} {
		show("counter without limits", (&counter{extras: bare, policy: inlinePolicy}).encode(origin).Value)
	}
	show("counter with a since", (&counter{policy: inlinePolicy, limits: []counted{{name: "a", limit: windowLimit, since: origin}}}).
		encode(origin).Value)
	show("counter with a lease", leasedCounter().encode(origin).Value)
	r, d := everyAnswer()
	show("answer", encodeAnswer(r, d))
	r.Own = 1
	show("answer with parents", encodeAnswer(r, d))
	golden(t, "testdata/extras.golden", text)
}

func TestExtrasComeBack(t *testing.T) {
	want := everyExtra()
	put := want.encode(origin)
	if put.ForgetAt != limit.Forever {
		t.Errorf("a counter with a remote hold is forgotten at %d", put.ForgetAt)
	}
	got := counter{key: want.key, policy: want.policy}
	if err := got.decode(put.Value, nil); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("%+v %+v\ncame back as\n%+v %+v, %v", want, want.extras, got, got.extras, err)
	}
	leased := counter{limits: countedLimits{}, policy: inlinePolicy}
	if err := leased.decode(leasedCounter().encode(origin).Value, nil); err != nil || leased.extras.leased() != 40 ||
		!reflect.DeepEqual(leased.extras, leasedCounter().extras) {
		t.Errorf("%+v, %v", leased.extras, err)
	}
	for n := range len(put.Value) {
		if (&counter{policy: inlinePolicy}).decode(put.Value[:n], nil) == nil {
			t.Errorf("%d of %d bytes are enough", n, len(put.Value))
		}
	}
	if (&counter{policy: inlinePolicy}).decode(append(put.Value, 0), nil) == nil {
		t.Error("a byte more does not matter")
	}
}

// Ended extras are left out when a counter is written, and a counter with no more than the first version's fields is
// written in the first version's format.
func TestEndedExtrasAreLeftOut(t *testing.T) {
	ends := origin + limit.Time(day) + 4_000_000 // of the ladder; the override and the reset end earlier
	c := everyExtra()
	c.extras.holds = nil
	c.encode(ends - 1)
	if c.extras == nil || c.extras.ladder.level != 3 || c.extras.override != nil || c.limits[0].since != 0 {
		t.Errorf("%+v, %+v", c, c.extras)
	}
	if put := c.encode(ends); c.extras != nil || put.Value[0] != counterFormat {
		t.Errorf("%+v is written as %x", c, put.Value)
	}
}

// everyAnswer returns a request and a decision with every field that only the second format of an answer has.
func everyAnswer() (*Request, *Decision) {
	r, d := everyStatus()
	d.Allowed, d.RetryAfter, d.HoldExpires = false, limit.Never, origin+5
	d.Limits[1].Held, d.Limits[2].Granted = 7, 300
	d.Limits[3].LockoutLevel, d.Limits[3].BlockedUntil, d.Limits[3].Blocked = 2, origin+9, true
	return r, d
}

func TestAnswerWithExtrasComesBack(t *testing.T) {
	for own := range 2 {
		r, d := everyAnswer()
		r.Own = own
		value := encodeAnswer(r, d)
		if own > 0 { // whatever the parents are by now
			r.Entries = r.Entries[:own]
		}
		got, same, err := decodeAnswer(value, r)
		d.Replayed = true
		if err != nil || !same || !reflect.DeepEqual(got, *d) {
			t.Errorf("%+v\ncame back as %+v, %v, %v", *d, got, same, err)
		}
		for n := range len(value) {
			if _, same, err := decodeAnswer(value[:n], r); same && err == nil {
				t.Errorf("%d of %d bytes are enough", n, len(value))
			}
		}
	}
}

// Every field that affects the decision changes the fingerprint; the actor does not.
func TestFingerprintKnowsEveryField(t *testing.T) {
	seen := map[uint64]string{}
	quota := uint64(5)
	for name, r := range map[string]Request{
		"plain":        {},
		"inline":       {Entries: []Entry{{Limits: []policy.Limit{{Name: "a", Limit: windowLimit}}}}},
		"an entry":     {Entries: []Entry{{}}},
		"its name":     {Entries: []Entry{{Limits: []policy.Limit{{Name: "b", Limit: windowLimit}}}}},
		"its numbers":  {Entries: []Entry{{Limits: []policy.Limit{{Name: "a", Limit: logLimit}}}}},
		"its shadow":   {Entries: []Entry{{Limits: []policy.Limit{{Name: "a", Limit: windowLimit, Shadow: true}}}}},
		"second entry": {Entries: []Entry{{}, {Limits: []policy.Limit{{Name: "a", Limit: windowLimit}}}}},
		"hold":         {Hold: &HoldTerms{TTL: 5}},
		"ttl":          {Hold: &HoldTerms{TTL: 6}},
		"on_expire":    {Hold: &HoldTerms{TTL: 5, OnExpire: policy.OnExpireCommit}},
		"settlement":   {Settlement: &Settlement{Action: ActionCommit}},
		"target":       {Settlement: &Settlement{Action: ActionCommit, Target: Target{Hold: true}}},
		"position":     {Settlement: &Settlement{Action: ActionCommit, Target: Target{Position: stamp.Position}}},
		"index":        {Settlement: &Settlement{Action: ActionCommit, Target: Target{Index: 1}}},
		"operation":    {Settlement: &Settlement{Action: ActionCommit, Target: Target{Operation: "x", Home: 1}}},
		"action":       {Settlement: &Settlement{Action: ActionCancel}},
		"actual":       {Settlement: &Settlement{Action: ActionCommit, Actual: []uint64{0}}},
		"overage":      {Settlement: &Settlement{Action: ActionCommit, Overage: OverageDebt}},
		"extension":    {Settlement: &Settlement{Action: ActionExtend, TTL: 5}},
		"amount":       {Adjustment: &Adjustment{Amount: 1}},
		"less":         {Adjustment: &Adjustment{Amount: -1}},
		"until":        {Adjustment: &Adjustment{Until: 1}},
		"note":         {Adjustment: &Adjustment{Note: "n"}},
		"override":     {Adjustment: &Adjustment{Override: &policy.Override{Tier: "t"}}},
		"expiry":       {Adjustment: &Adjustment{Override: &policy.Override{Tier: "t", Expires: 1}}},
		"quota": {Adjustment: &Adjustment{
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}},
		"refill": {Adjustment: &Adjustment{
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Refill: &quota}}}}},
	} {
		sum := Fingerprint(&r)
		if seen[sum] != "" {
			t.Errorf("%q and %q are the same request", name, seen[sum])
		}
		seen[sum] = name
	}
	kim, lee := Request{Adjustment: &Adjustment{Amount: 1, Actor: "kim"}},
		Request{Adjustment: &Adjustment{Amount: 1, Actor: "lee"}}
	if Fingerprint(&kim) != Fingerprint(&lee) {
		t.Error("a change sent again over another connection is another request")
	}
}

func FuzzCounterWithExtras(f *testing.F) {
	f.Add(everyExtra().encode(origin).Value)
	c := everyExtra()
	c.extras.holds = c.extras.holds[:2]
	f.Add(c.encode(origin).Value)
	f.Fuzz(func(t *testing.T, value []byte) {
		c, again := counter{policy: everyExtra().policy}, counter{policy: everyExtra().policy}
		if c.decode(value, nil) != nil {
			return
		}
		if cap(c.extras.openHolds()) > len(value) {
			t.Fatalf("room for %d holds in %d bytes", cap(c.extras.openHolds()), len(value))
		}
		p := c.encode(0)
		if err := again.decode(p.Value, nil); err != nil || !reflect.DeepEqual(again.encode(0), p) {
			t.Fatalf("%x was written again and came back as %x, %v", p.Value, again.encode(0).Value, err)
		}
		c.expire(limit.MaxTime)
		for i := range c.limits {
			c.heldBy(i, limit.MaxTime)
		}
		c.encode(limit.MaxTime)
	})
}

// A success that steps down lowers the level by one, and ends the block of the former level.
func TestASuccessThatStepsDownEndsTheBlock(t *testing.T) {
	c := &counter{policy: &policy.Policy{Retention: hour,
		Lockout: &policy.Lockout{After: 1, Base: hour, Factor: 2, Max: day, ForgiveAfter: day, StepDown: true}}}
	c.violate(origin)
	c.violate(origin + 1)
	if until, level := c.extras.blockedUntil(origin+2), c.extras.level(c.policy.Lockout, origin+2); until == 0 ||
		level != 2 {
		t.Fatalf("after two violations: blocked until %d at level %d", until, level)
	}
	c.extras.succeed(c.policy.Lockout, origin+2)
	if until, level := c.extras.blockedUntil(origin+2), c.extras.level(c.policy.Lockout, origin+2); until != 0 ||
		level != 1 {
		t.Errorf("after a success: blocked until %d at level %d, must be free at level 1", until, level)
	}
}
