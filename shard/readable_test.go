package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// A shard must be able to read what it writes, whatever a client sends: an unreadable record stops its owner, and then
// the next one.

func TestAPartThatOnlyAShadowDeniesIsTakenInFull(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 2})
	p.Shadow = true
	c := &crossing{world: newWorld(t, p), about: Operation{ID: "x", Op: Partial, Home: 1, Fingerprint: 7,
		TTL: operationTTL}}
	charged := c.charge(origin + 1).Decision // 3 of 2
	if !charged.Allowed || !charged.ShadowDenied || charged.Limits[0].Granted != 3 {
		t.Errorf("3 of a shadow's 2 are answered %+v", charged)
	}
	c.want(origin+2, 0, "what a limit in shadow denies it does not count")
	c.finish(origin+3, OperationAborted, &charged)
	c.want(origin+4, 0, "what was not counted is not given back")
}

func TestAnIDForTwoOperationsOnOneKeyIsRefused(t *testing.T) {
	about := func(home slot.ID, print uint64) *Operation {
		return &Operation{ID: "x", Op: Reserve, Home: home, Fingerprint: print, TTL: operationTTL}
	}
	part := func(op Op, o *Operation) Request {
		return Request{Op: op, Namespace: "default", Hold: &HoldTerms{TTL: operationTTL},
			Entries: []Entry{{Policy: "p", Key: "k", Cost: 3}}, Operation: o}
	}
	leg, home := part(Charge, about(1, 7)), part(Conclude, about(mine, 8))
	home.Operation.Legs = []Leg{{Slot: 5, Allowed: true, Decision: Decision{Allowed: true, Index: 1}}}
	for _, order := range [][]Request{{leg, home}, {home, leg}} {
		c := newCrossing(t)
		results, _ := c.batch(origin+1, order...) // at one instant, so that both holds would have the same place
		if results[0].Err != nil || results[1].Err == nil || results[1].Err.Code != IDReused {
			t.Errorf("%d, then %d: %v, %v", order[0].Op, order[1].Op, results[0].Err, results[1].Err)
		}
		c.want(origin+2, 3, "the second operation")
	}
}

func TestAKeyRemembersSoManyInlineLimitsAndNoMore(t *testing.T) {
	w := newWorld(t)
	check := func(now limit.Time, name string) Result {
		r := checkOf("any", "k", 1)
		r.Entries[0].Limits = []policy.Limit{{Name: name,
			Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: minute}}}
		results, _ := w.batch(now, r)
		return results[0]
	}
	for i := range maxInline {
		if result := check(origin+1, fmt.Sprint("l", i)); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if result := check(origin+2, "more"); result.Err == nil || result.Err.Code != Overloaded {
		t.Errorf("one limit more is answered %+v", result)
	}
	if result := check(origin+2, "l7"); result.Err != nil || result.Decision.Allowed {
		t.Errorf("a limit that is there already is answered %+v", result)
	}
	if result := check(origin+limit.Time(minute), "more"); result.Err != nil || !result.Decision.Allowed {
		t.Errorf("when the others have ended, one limit more is answered %+v", result)
	}
}
