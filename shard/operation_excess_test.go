package shard

import (
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// chargeExcess charges a leg the excess.
func (c *crossing) chargeExcess(now limit.Time, units uint64) Result {
	c.Helper()
	return c.tell(now, Charge, func(r *Request) {
		r.Operation.ID, r.Operation.Op, r.Operation.Drawn = "excess", Settle, true
		r.Entries[0].Cost, r.Hold = units, nil
	})
}

func (c *crossing) finishExcess(now limit.Time, state OperationState, charged *Decision) {
	c.Helper()
	c.tell(now, FinishLeg, func(r *Request) {
		r.Operation.ID, r.Operation.Verdict = "excess", Verdict{ID: "excess", Home: 1, Known: true, State: state}
		r.Operation.Legs = []Leg{{Slot: mine, Allowed: true, Decision: charged.bare()}}
	})
}

// An excess has the same bounds as on one shard: not limits in shadow, not concurrency limits, no block.
func TestALegIsChargedAnExcessThatFits(t *testing.T) {
	watched := policy.Limit{Name: "watched", Shadow: true, Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 2}}
	for _, state := range []OperationState{OperationCommitted, OperationAborted} {
		c := newCrossing(t, lifetimeOf(10), limit.Limit{Algorithm: limit.Concurrency, Quota: 1},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 20, Period: hour})
		p := onePolicy(lifetimeOf(10), limit.Limit{Algorithm: limit.Concurrency, Quota: 1},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 20, Period: hour})
		p.Limits, p.CountDenied = append(p.Limits, watched), true
		c.policies = policy.NewSet([]*policy.Policy{p})
		c.batch(origin+1, Request{Op: Block, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}},
			Adjustment: &Adjustment{Until: origin + limit.Time(hour)}})
		numbers := func(now limit.Time) (used, held []uint64) {
			results, _ := c.batch(now, Request{Op: Get, Namespace: "default",
				Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}})
			for _, s := range results[0].Decision.Limits {
				used, held = append(used, s.Used), append(held, s.Held)
			}
			return used, held
		}
		denied := c.chargeExcess(origin+2, 11)
		if d := &denied.Decision; denied.Err != nil || d.Allowed || d.Index != 0 || d.Limits[0].Allowed ||
			d.Limits[0].Remaining != 10 || !d.Limits[1].Allowed || !d.Limits[2].Allowed || !d.Limits[3].Allowed ||
			c.state.OpenLegs() != 0 {
			t.Fatalf("more than fits: %+v", denied)
		}
		charged := c.chargeExcess(origin+2, 10)
		if !charged.Decision.Allowed || charged.Decision.Index == 0 || c.state.OpenLegs() != 1 {
			t.Fatalf("what fits: %+v", charged)
		}
		if again := c.chargeExcess(origin+2, 10); !again.Decision.Replayed ||
			placeOf(&again.Decision) != placeOf(&charged.Decision) {
			t.Errorf("charged again: %+v", again)
		}
		if used, held := numbers(origin + 2); !reflect.DeepEqual(used, []uint64{10, 0, 10, 10}) ||
			!reflect.DeepEqual(held, used) {
			t.Errorf("charged: %d used, %d held", used, held)
		}
		c.finishExcess(origin+3, state, &charged.Decision)
		want := map[OperationState][]uint64{OperationCommitted: {10, 0, 10, 10}, OperationAborted: {0, 0, 0, 0}}[state]
		if used, held := numbers(origin + 3); !reflect.DeepEqual(used, want) ||
			!reflect.DeepEqual(held, []uint64{0, 0, 0, 0}) {
			t.Errorf("ruled %d: %d used, %d held", state, used, held)
		}
	}
}

// When an excess ends, a limit that did not count it gives nothing back, since that would be other decisions' units.
func TestAnExcessGivesBackWhatCountedIt(t *testing.T) {
	for _, state := range []OperationState{OperationCommitted, OperationAborted} {
		c := newCrossing(t, limit.Limit{Algorithm: limit.Concurrency, Quota: 5})
		c.about.Op, c.hold = Reserve, &HoldTerms{TTL: day}
		held := c.charge(origin + 1).Decision
		c.finish(origin+2, OperationHeld, &held)
		charged := c.chargeExcess(origin+3, 2).Decision
		c.want(origin+3, 3, "held, and an excess charged")
		c.finishExcess(origin+4, state, &charged)
		c.want(origin+4, 3, "held, and the excess at its end")
	}
}

// settleAbove settles a hold of 3 units here and 1 on shard 4 with the given actual costs.
func (c *crossing) settleAbove(now limit.Time, here, there uint64, excess *Excess) Result {
	c.Helper()
	return c.tell(now, Settle, func(r *Request) {
		r.Entries = []Entry{{Policy: "p", Key: "elsewhere", Cost: 1}, {Policy: "p", Key: "k", Cost: 3}}
		r.Settlement = &Settlement{Action: ActionCommit, Overage: OverageReject, Actual: []uint64{there, here},
			Target: Target{Hold: true, Operation: "x", Home: mine}}
		r.Operation.Home, r.Operation.Excess = mine, excess
		r.Operation.Legs = []Leg{{Slot: 4, Decision: Decision{Limits: []LimitStatus{{Policy: "p", Key: "elsewhere"}}}}}
	})
}

// homeOfHold returns a shard that is the home of a hold of 3 units here and 1 on shard 4.
func homeOfHold(t *testing.T) *crossing {
	c := newCrossing(t)
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: day}
	c.conclude(origin+1, true, 0)
	return c
}

// excessOf returns the charge on shard 4 at an instant.
func excessOf(at limit.Time, allowed bool) *Excess {
	return &Excess{ID: "excess",
		Legs: []Leg{{Slot: 4, Allowed: allowed, Decision: Decision{Allowed: allowed, DecidedAt: at,
			Position: Position{4, 1, 20}, Index: 1, Limits: []LimitStatus{{Policy: "p", Key: "elsewhere",
				Verdict: limit.Verdict{Allowed: allowed, Remaining: 2}}}}}}}
}

func (c *crossing) excessState(now limit.Time) (state OperationState, known bool) {
	v := c.tell(now, AskHome, func(r *Request) { r.Operation.ID = "excess"; r.Operation.Fingerprint = 0 })
	if v.Err != nil { // of another fingerprint: home knows it
		u, err := decodeRuling(c.recordOf(string(appendIDKey(nil, rulingRecord, "default", mine, "excess"))))
		if err != nil {
			c.Fatal(err)
		}
		return u.state, true
	}
	return 0, false
}

func (c *crossing) recordOf(key string) []byte {
	record, _ := c.state.Lookup(key)
	return record.Value
}

func TestHomeSettlesTogetherWithTheExcess(t *testing.T) {
	c := homeOfHold(t)
	asked := c.settleAbove(origin+2, 5, 6, nil)
	if v := asked.Decision.Operation; asked.Err != nil || v == nil || v.State != OperationHeld {
		t.Fatalf("before the leg was charged home says %+v", asked)
	}
	c.want(origin+2, 3, "before the leg was charged")
	settled := c.settleAbove(origin+3, 5, 6, excessOf(origin+2, true))
	if v := settled.Decision.Operation; settled.Err != nil || v == nil || v.State != OperationSettled ||
		settled.Decision.Replayed {
		t.Fatalf("settled: %+v", settled)
	}
	c.want(origin+3, 5, "settled")
	if state, known := c.excessState(origin + 3); !known || state != OperationCommitted {
		t.Errorf("the excess is %d, known %v", state, known)
	}
	for _, excess := range []*Excess{nil, excessOf(origin+2, true), excessOf(origin+9, false)} {
		if again := c.settleAbove(origin+limit.Time(hour), 5, 6, excess); again.Err != nil ||
			!again.Decision.Replayed || again.Decision.Operation.State != OperationSettled {
			t.Errorf("the same again with %+v: %+v", excess, again)
		}
	}
	c.want(origin+limit.Time(hour), 5, "settled again and again")
	told := map[string]OperationState{}
	for _, duty := range c.state.Duties(limit.Forever, 10) {
		if duty.To != 4 || duty.Request.Op != FinishLeg {
			t.Errorf("home owes %+v", duty)
		}
		told[duty.Request.Operation.ID] = duty.Request.Operation.Verdict.State
	}
	if want := map[string]OperationState{"x": OperationSettled,
		"excess": OperationCommitted}; !reflect.DeepEqual(told, want) {
		t.Errorf("home tells the leg %v, want %v", told, want)
	}
}

func TestHomeRefusesWhatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		here, there uint64
		allowed     bool
		field, text string
	}{
		"at home":  {11, 3, true, "commit.actual_cost[1]", "11 is 8 more than was taken, and there is room for 7 more"},
		"at a leg": {4, 9, false, "commit.actual_cost[0]", "9 is 8 more than was taken, and there is room for 2 more"},
	} {
		home := homeOfHold(t)
		refused := home.settleAbove(origin+3, c.here, c.there, excessOf(origin+2, c.allowed))
		if err := refused.Err; err == nil || err.Code != OverQuota || err.Field != c.field || err.Message != c.text {
			t.Errorf("%s: %+v", name, refused)
		}
		home.want(origin+3, 3, name)
		if state, known := home.excessState(origin + 3); known != c.allowed || known && state != OperationAborted {
			t.Errorf("%s: the excess is %d, known %v", name, state, known)
		}
		// A late copy of the message, when there is room again, finds the excess given up.
		if late := home.settleAbove(origin+4, 4, c.there, excessOf(origin+2, true)); c.allowed &&
			(late.Err == nil || late.Err.Code != TooLate) {
			t.Errorf("%s: a late copy is answered %+v", name, late)
		}
		if settled := home.settleAbove(origin+5, 10, 1, nil); settled.Err != nil && c.allowed {
			t.Errorf("%s: settled by what fits: %+v", name, settled)
		}
	}
}

// Home does not commit an excess that it has given up, or may have: its leg has released it.
func TestAnExcessThatWasGivenUpIsNotSettledWith(t *testing.T) {
	c := homeOfHold(t)
	given := excessOf(origin+2, true)
	c.tell(origin+3, ResolveHome, func(r *Request) {
		r.Operation.ID, r.Operation.Leg, r.Operation.Legs = "excess", 4, given.Legs
	})
	for _, now := range []limit.Time{origin + 4, origin + limit.Time(ConcludeWithin) + 3, origin + limit.Time(hour)} {
		if late := c.settleAbove(now, 5, 6, given); late.Err == nil || late.Err.Code != TooLate {
			t.Errorf("at %d: %+v", now-origin, late)
		}
	}
	c.want(origin+limit.Time(hour), 3, "after it was given up")
	if own := c.settleAbove(origin+limit.Time(hour), 5, 6, &Excess{ID: "x", Legs: given.Legs}); own.Err == nil ||
		own.Err.Code != Invalid {
		t.Errorf("an excess with the id of what it is of: %+v", own)
	}
	fresh := &Excess{ID: "another", Legs: excessOf(origin+limit.Time(hour), true).Legs}
	if settled := c.settleAbove(origin+limit.Time(hour), 5, 6, fresh); settled.Err != nil {
		t.Errorf("settled with another: %+v", settled)
	}
	c.want(origin+limit.Time(hour), 5, "settled with another")
}

// A leg leaves out an excess that was charged before, and does not need room for it again.
func TestALegSettlesWithoutTheExcess(t *testing.T) {
	c := newCrossing(t, lifetimeOf(100))
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: day}
	held := c.charge(origin + 1).Decision
	c.finish(origin+2, OperationHeld, &held)
	charged := c.chargeExcess(origin+3, 7).Decision
	settle := func(now limit.Time) Result {
		return c.tell(now, FinishLeg, func(r *Request) {
			r.Operation.Verdict = Verdict{ID: "x", Home: 1, Known: true, State: OperationSettled,
				Settled: &Settlement{Action: ActionCommit, Overage: OverageReject, Actual: []uint64{10}}}
			r.Operation.Legs = []Leg{{Slot: mine, Allowed: true, Decision: held.bare()}}
		})
	}
	if result := settle(origin + 4); result.Err != nil {
		t.Fatal(result.Err)
	}
	c.want(origin+4, 10, "settled")
	c.finishExcess(origin+5, OperationCommitted, &charged)
	c.want(origin+5, 10, "settled, and the excess committed")
	settle(origin + 5)
	if c.want(origin+5, 10, "settled again"); c.state.OpenLegs() != 0 {
		t.Errorf("%d legs are open", c.state.OpenLegs())
	}
}
