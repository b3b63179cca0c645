package shard

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// lifetimeOf returns a limit that never resets.
func lifetimeOf(quota uint64) limit.Limit {
	return limit.Limit{Algorithm: limit.Lifetime, Quota: quota}
}

// reserveOf returns a Reserve of these entries for a minute.
func reserveOf(entries ...Entry) Request {
	return Request{Op: Reserve, Namespace: "default", Entries: entries, Hold: &HoldTerms{TTL: minute}}
}

// settleOf returns the settlement of a request's units.
func settleOf(r Request, d Decision, s Settlement) Request {
	s.Target = Target{Hold: r.Op == Reserve, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}
	return Request{Op: Settle, Namespace: r.Namespace, Entries: Taken(&r, &d), Settlement: &s}
}

// must decides one request at now, which must not be refused.
func (w *world) must(now limit.Time, r Request) Decision {
	w.Helper()
	results, _ := w.batch(now, r)
	if results[0].Err != nil {
		w.Fatalf("%+v: %v", r, results[0].Err)
	}
	return results[0].Decision
}

// refused decides one request at now and returns its error.
func (w *world) refused(now limit.Time, r Request) *Error {
	w.Helper()
	results, puts := w.batch(now, r)
	if results[0].Err == nil {
		w.Fatalf("%+v was not refused: %+v", r, results[0].Decision)
	}
	if len(puts) > 0 {
		w.Fatalf("%+v was refused (%v) and changed %+v", r, results[0].Err, puts)
	}
	return results[0].Err
}

// usedOf returns what the limits of one key have used.
func (w *world) usedOf(now limit.Time, p, key string) (used []uint64) {
	w.Helper()
	d := w.must(now, Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: p, Key: key}}})
	for _, l := range d.Limits {
		used = append(used, l.Used)
	}
	return used
}

func (w *world) wantUsed(now limit.Time, p, key string, want ...uint64) {
	w.Helper()
	if got := w.usedOf(now, p, key); !slices.Equal(got, want) {
		w.Errorf("%s/%s has used %v, want %v", p, key, got, want)
	}
}

// TestAHoldOfSeveralEntriesIsOne: it is taken from all entries or none, and each entry reports its actual cost.
func TestAHoldOfSeveralEntriesIsOne(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "ann", Cost: 6}, Entry{Policy: "p", Key: "team", Cost: 8})
	held := w.must(origin, r)
	if denied := w.must(origin, reserveOf(Entry{Policy: "p", Key: "ann", Cost: 4},
		Entry{Policy: "p", Key: "team", Cost: 3})); denied.Allowed {
		t.Errorf("there was no room for %+v", denied)
	}
	w.wantUsed(origin, "p", "ann", 6)
	d := w.must(origin+1, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{0, 9}}))
	if !d.Allowed || d.Index == 0 || d.DecidedAt != origin+1 || len(d.Limits) != 2 {
		t.Errorf("the settlement says %+v", d)
	}
	w.wantUsed(origin+1, "p", "ann", 0)
	w.wantUsed(origin+1, "p", "team", 9)
}

// TestRejectIsAllOrNothing: if the excess of one entry does not fit, no other entry is settled either.
func TestRejectIsAllOrNothing(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "ann", Cost: 6}, Entry{Policy: "p", Key: "team", Cost: 8})
	held := w.must(origin, r)
	err := w.refused(origin+1,
		settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{1, 11}, Overage: OverageReject}))
	if err.Code != OverQuota || err.Field != "commit.actual_cost[1]" || err.MaybeApplied() {
		t.Errorf("refused with %+v", err)
	}
	w.wantUsed(origin+1, "p", "ann", 6)
	w.must(origin+1, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{1, 10},
		Overage: OverageReject}))
	w.wantUsed(origin+1, "p", "ann", 1)
	w.wantUsed(origin+1, "p", "team", 10)
}

// TestWhatOnlyWatchesDoesNotLimitAnOverage: a limit in shadow counts the excess and does not clamp or refuse it.
func TestWhatOnlyWatchesDoesNotLimitAnOverage(t *testing.T) {
	p := onePolicy(lifetimeOf(10), lifetimeOf(100), lifetimeOf(7))
	p.Limits[0].Shadow = true
	p.Tiers = map[string]policy.Tier{"all": {Unlimited: true}}
	for _, overage := range []Overage{OverageClamp, OverageReject} {
		w := newWorld(t, p)
		r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 5})
		held := w.must(origin, r)
		w.must(origin, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{7}, Overage: overage}))
		w.wantUsed(origin, "p", "k", 7, 7, 7)
		r = reserveOf(Entry{Policy: "p", Key: "k", Cost: 1, Tier: "all"})
		held = w.must(origin, r)
		w.must(origin, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{50}, Overage: overage}))
		w.wantUsed(origin, "p", "k", 57, 57, 57)
	}
}

// TestASettlementDoesNotNeedThePolicy: a hold can be settled whatever the current policies are.
func TestASettlementDoesNotNeedThePolicy(t *testing.T) {
	p := onePolicy(lifetimeOf(10))
	p.Tiers = map[string]policy.Tier{"free": {}}
	for name, set := range map[string]*policy.Set{
		"no policy": policy.NewSet(nil),
		"no tier":   policy.NewSet([]*policy.Policy{onePolicy(lifetimeOf(10))}),
		"no limit":  policy.NewSet([]*policy.Policy{{Name: "p", Retention: policy.DefaultRetention}}),
	} {
		w := newWorld(t, p)
		then := w.policies
		r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6, Tier: "free"})
		r.ID = "hold"
		held := w.must(origin, r)
		w.policies = set
		s := settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{2}})
		s.ID = "commit"
		w.must(origin+1, s)
		s.ID = ""
		if d := w.must(origin+2, s); !d.Replayed {
			t.Errorf("%s: settled twice: %+v", name, d)
		}
		w.policies = then
		if got := w.usedOf(origin+2, "p", "k"); got[0] != 2 {
			t.Errorf("%s: %d used after the commit of 2", name, got[0])
		}
	}
}

// TestLimitsThatAHoldNeverTookFromGetNothingBack: the count of a limit that was added later does not contain the hold.
func TestLimitsThatAHoldNeverTookFromGetNothingBack(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6})
	held := w.must(origin, r)
	w.policies = policy.NewSet([]*policy.Policy{onePolicy(lifetimeOf(10), lifetimeOf(20))})
	w.must(origin+1, checkOf("p", "k", 4))
	w.must(origin+2, settleOf(r, held, Settlement{Action: ActionCancel}))
	w.wantUsed(origin+3, "p", "k", 4, 4)
}

// TestInlineLimitsAreSettledFromTheirRecord: the id has their names, and the record their numbers.
func TestInlineLimitsAreSettledFromTheirRecord(t *testing.T) {
	w := newWorld(t)
	limits := []policy.Limit{{Name: "mine", Limit: lifetimeOf(10)}}
	r := reserveOf(Entry{Policy: "label", Key: "k", Cost: 6, Limits: limits})
	held := w.must(origin, r)
	sealer := NewSealer(1, SealingSecret{1, testSecret})
	s, err := sealer.Open(sealer.Seal(Target{Hold: true, Position: held.Position, Index: held.Index,
		DecidedAt: held.DecidedAt},
		"default", r.Entries))
	if err != nil {
		t.Fatal(err)
	}
	s.Settlement.Action, s.Settlement.Actual = ActionCommit, []uint64{15}
	d := w.must(origin+1, s)
	if len(d.Limits) != 1 || d.Limits[0].Limit != "mine" || d.Limits[0].Used != 10 || d.Limits[0].Quota != 10 {
		t.Errorf("an overage that is clamped left %+v", d.Limits)
	}
	if d := w.must(origin+2, s); !d.Replayed {
		t.Errorf("once more: %+v", d)
	}
}

// TestSettlingTwiceInOneBatch: the second settlement is a copy of the first, or is refused.
func TestSettlingTwiceInOneBatch(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6})
	held := w.must(origin, r)
	cancel, commit := settleOf(r, held, Settlement{Action: ActionCancel}),
		settleOf(r, held, Settlement{Action: ActionCommit})
	results, puts := w.batch(origin+1, cancel, cancel, commit)
	if results[0].Err != nil || results[0].Decision.Replayed || results[1].Err != nil ||
		!results[1].Decision.Replayed || results[2].Err == nil || results[2].Err.Code != HoldEnded ||
		results[2].Err.Field != "hold_id" {
		t.Errorf("got %+v", results)
	}
	if len(puts) != 2 {
		t.Errorf("the effects are %+v", puts)
	}
	w.wantUsed(origin+1, "p", "k", 0)
}

// TestARetriedReserveOpensOneHold: with an idempotency id, and in a session.
func TestARetriedReserveOpensOneHold(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	opened := w.must(origin, Request{Op: OpenSession})
	session := opened.Answer().Session
	byID := reserveOf(Entry{Policy: "p", Key: "id", Cost: 3})
	byID.ID = "x"
	inSession := reserveOf(Entry{Policy: "p", Key: "session", Cost: 3})
	inSession.Session, inSession.Number, inSession.Retry = session, 1, true
	for i, r := range []Request{byID, inSession} {
		now := origin + 1 + limit.Time(10*i)
		first, second := w.must(now, r), w.must(now+1, r)
		if !second.Replayed || second.Index != first.Index || second.Position != first.Position ||
			second.HoldExpires != first.HoldExpires || second.DecidedAt != first.DecidedAt {
			t.Errorf("a copy got %+v, the first %+v", second, first)
		}
		w.wantUsed(now+1, "p", r.Entries[0].Key, 3)
		w.must(now+2, settleOf(r, second, Settlement{Action: ActionCancel}))
		w.wantUsed(now+2, "p", r.Entries[0].Key, 0)
	}
}

// TestADecisionIsSettledWithinTheShortestRetention: a longer one of another entry does not help, because the counter of
// the short one has forgotten its reset by then.
func TestADecisionIsSettledWithinTheShortestRetention(t *testing.T) {
	short, long := onePolicy(lifetimeOf(10)), onePolicy(lifetimeOf(10))
	short.Name, short.Retention, long.Retention = "short", minute, hour
	w := newWorld(t, short, long)
	r := Request{Op: Check, Namespace: "default",
		Entries: []Entry{{Policy: "short", Key: "k", Cost: 4}, {Policy: "p", Key: "k", Cost: 4}}}
	d := w.must(origin, r)
	w.must(origin+1, Request{Op: Reset, Namespace: "default", Entries: r.Entries[:1]})
	w.must(origin+2, checkOf("short", "k", 3))
	again := w.must(origin+3, r)
	w.must(origin+4, settleOf(r, again, Settlement{Action: ActionCancel}))
	w.wantUsed(origin+4, "short", "k", 3)
	late := origin + limit.Time(minute)
	if err := w.refused(late, settleOf(r, d, Settlement{Action: ActionCancel})); err.Code != HoldEnded ||
		err.Field != "decision_id" {
		t.Errorf("refused with %+v", err)
	}
	w.must(late-1+3, settleOf(r, again, Settlement{Action: ActionCancel})) // the record of its end lives as long
	if err := w.refused(late+3, settleOf(r, again, Settlement{Action: ActionCancel})); err.Code != HoldEnded {
		t.Errorf("refused with %+v", err)
	}
	w.wantUsed(late+3, "short", "k", 3)
}

// TestAnExtensionWithoutAnIDIsAnotherOneWhenSentAgain: the hold lives on from then. It leaves no record, and one with
// an id leaves that of the id.
func TestAnExtensionWithoutAnIDIsAnotherOneWhenSentAgain(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6})
	held := w.must(origin, r)
	records := w.state.Records()
	extend := settleOf(r, held, Settlement{Action: ActionExtend, TTL: hour})
	for _, at := range []limit.Time{origin + 1, origin + 2} {
		if d := w.must(at, extend); d.Replayed || d.HoldExpires != at+anHour || w.state.Records() != records {
			t.Errorf("without an id: %+v, with %d records more", d, w.state.Records()-records)
		}
	}
	extend.ID = "x"
	first := w.must(origin+3, extend)
	if d := w.must(origin+4, extend); !d.Replayed || d.HoldExpires != first.HoldExpires ||
		w.state.Records() != records+1 {
		t.Errorf("with an id: %+v, with %d records more", d, w.state.Records()-records)
	}
}

// TestSettlingWhenTheShardIsFull: giving units back must not need room.
func TestSettlingWhenTheShardIsFull(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6})
	held := w.must(origin, r)
	w.most = w.state.Records()
	s := settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{1}})
	s.ID = "x"
	w.must(origin+1, s)
	w.wantUsed(origin+1, "p", "k", 1)
	if d := w.must(origin+2, settleOf(r, held, Settlement{Action: ActionCommit, Actual: []uint64{1}})); !d.Replayed {
		t.Errorf("once more: %+v", d)
	}
}

func TestWhatIsWrongWithAReserveOrASettlement(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(100)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 6})
	held, decided := w.must(origin, r), w.must(origin, checkOf("p", "k", 1))
	settle := func(s Settlement) Request { return settleOf(r, held, s) }
	operation := settle(Settlement{Action: ActionCancel})
	operation.Settlement.Target.Operation = "o"
	for field, bad := range map[string]Request{
		"ttl": {Op: Reserve, Namespace: "default", Entries: r.Entries},
		"on_expire": {Op: Reserve, Namespace: "default", Entries: r.Entries,
			Hold: &HoldTerms{TTL: 1, OnExpire: 3}},
		"target":                {Op: Settle, Namespace: "default", Entries: r.Entries},
		"action":                settle(Settlement{Action: 6}),
		"commit.overage":        settle(Settlement{Action: ActionCommit, Overage: 3}),
		"commit.actual_cost":    settle(Settlement{Action: ActionCommit, Actual: []uint64{1, 2}}),
		"commit.actual_cost[0]": settle(Settlement{Action: ActionCommit, Actual: []uint64{limit.MaxCost + 1}}),
		"extend":                settleOf(checkOf("p", "k", 1), decided, Settlement{Action: ActionExtend, TTL: 1}),
		"extend.ttl":            settle(Settlement{Action: ActionExtend, TTL: MaxHoldTTL + 1}),
	} {
		if err := w.refused(origin+1, bad); err.Code != Invalid || err.Field != field || err.Message == "" {
			t.Errorf("%s: refused with %+v", field, err)
		}
	}
	if err := w.refused(origin+1, operation); err.Code != Invalid || err.Field != "hold_id" {
		t.Errorf("refused with %+v", err)
	}
	never, elsewhere := settle(Settlement{Action: ActionCancel}), settle(Settlement{Action: ActionCancel})
	never.Settlement.Target.Index = 7
	elsewhere.Settlement.Target.Position.Shard++ // a place of another shard is another hold
	for _, unknown := range []Request{never, elsewhere} {
		if err := w.refused(origin+1, unknown); err.Code != HoldEnded {
			t.Errorf("refused with %+v", err)
		}
	}
	w.wantUsed(origin+1, "p", "k", 7)
}

// TestTheMostHolds: one more hold is refused as Overloaded, and nothing is counted. When one ends there is room again.
func TestTheMostHolds(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(1<<40)))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 1})
	c := counter{key: string(appendCounterKey(nil, "default", "p", "k")), policy: inlinePolicy, limits: []counted{
		{name: "a", limit: lifetimeOf(1 << 40), state: limit.State{A: maxHolds}}}}
	for i := range maxHolds {
		c.addHold(hold{name: holdName(Position{Epoch: 1 << 20, Seq: 1 << 27}, uint32(i)), taken: origin,
			expires: origin + 2 + limit.Time(i), cost: 1, onExpire: policy.OnExpireCancel})
	}
	put := c.encode(origin)
	if len(put.Value) > MaxEntryBytes/2 {
		t.Errorf("the record has %d bytes, which leaves no room for others in an entry", len(put.Value))
	}
	w.append(EncodeBatch(w.next(origin), []Put{put}))
	if err := w.refused(origin+1, r); err.Code != Overloaded || !strings.Contains(err.Message, "4096") {
		t.Errorf("refused with %+v", err)
	}
	w.wantUsed(origin+1, "p", "k", maxHolds)
	w.must(origin+2, r)
	w.wantUsed(origin+2, "p", "k", maxHolds)
	w.wantUsed(origin+2+limit.Time(minute), "p", "k", 0)
}

// TestAdjustmentsDoNotEndHolds: a set state begins a new generation, and an earlier hold gives nothing back into it.
func TestAdjustmentsDoNotEndHolds(t *testing.T) {
	running := limit.Limit{Algorithm: limit.Concurrency, Quota: 2}
	w := newWorld(t, onePolicy(lifetimeOf(100), running))
	r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 2})
	held := w.must(origin, r)
	set := adjustOf(SetUsed, "p", "k", Adjustment{Amount: 50})
	w.must(origin+1, set)
	w.wantUsed(origin+1, "p", "k", 50, 2)
	w.must(origin+2, settleOf(r, held, Settlement{Action: ActionCancel}))
	w.wantUsed(origin+2, "p", "k", 50, 0)
	set.Op, set.Adjustment = AddUsed, &Adjustment{Amount: -80}
	w.must(origin+3, set)
	w.wantUsed(origin+3, "p", "k", 0, 0)
}

// TestADecisionOfALostHistory: after a restore from a backup the shard is at a time before one of its decisions.
func TestADecisionOfALostHistory(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := checkOf("p", "k", 4)
	d := w.must(origin+1, r)
	d.DecidedAt, d.Position.Epoch = origin+100, 7
	if err := w.refused(origin+50, settleOf(r, d, Settlement{Action: ActionCancel})); err.Code != HoldEnded {
		t.Errorf("refused with %+v", err)
	}
	w.wantUsed(origin+50, "p", "k", 4)
}

// TestAHoldSaysThatItSpansSlots: a slot must not move while a hold is open that has units of other slots, too.
func TestAHoldSaysThatItSpansSlots(t *testing.T) {
	for spans, keys := range map[bool][]string{false: {"{a}x", "{a}y"}, true: {"a", "b"}} {
		w := newWorld(t, onePolicy(lifetimeOf(10)))
		w.must(origin, reserveOf(Entry{Policy: "p", Key: keys[0], Cost: 1}, Entry{Policy: "p", Key: keys[1], Cost: 1}))
		for _, key := range keys {
			record, _ := w.state.Lookup(counterKeyOf("p", key))
			c := counter{policy: inlinePolicy}
			if err := c.decode(record.Value, nil); err != nil || len(c.extras.holds) != 1 ||
				c.extras.holds[0].spans != spans {
				t.Errorf("the hold of %v in %s: %+v, %v", keys, key, c.extras, err)
			}
		}
	}
}
