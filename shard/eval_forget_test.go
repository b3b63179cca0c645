package shard

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

const person = "user:ada@example.com"

func forgetOf(key string) Request {
	return Request{Op: Forget, Namespace: "default", Adjustment: &Adjustment{Forget: key, Bills: true}}
}

// snapshot returns the bytes of a picture of the state.
func (w *world) snapshot() string {
	w.Helper()
	var file bytes.Buffer
	if _, err := w.state.Snapshot().WriteTo(&file); err != nil {
		w.Fatal(err)
	}
	return file.String()
}

func (w *world) forget(now limit.Time, key string) Forgot {
	w.Helper()
	d := w.must(now, forgetOf(key))
	return d.Answer().Forgot
}

// newForgetWorld returns a shard with two policies, login with a ladder.
func newForgetWorld(t *testing.T) *world {
	login := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 2, Period: hour})
	login.Name, login.CountDenied = "login", true
	login.Lockout = &policy.Lockout{After: 1, Base: minute, Factor: 2, Max: hour, ForgiveAfter: day, OnDenied: true}
	return newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10}), login)
}

func TestNothingOfAForgottenKeyIsKept(t *testing.T) {
	w := newForgetWorld(t)
	now := origin
	for _, key := range []string{person, "other", person + "x", "x" + person} {
		now += 10
		check := checkOf("p", key, 1)
		check.ID = fmt.Sprint("id-", now)
		w.must(now+1, check)
		for n := range limit.Time(4) {
			w.batch(now+2+n, checkOf("login", key, 1))
		}
		w.must(now+7, reserveOf(Entry{Policy: "p", Key: key, Cost: 2}))
		inline := checkOf("mine", key, 1)
		inline.Entries[0].Limits = []policy.Limit{{Name: "i", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}}}
		w.must(now+8, inline)
		block := Request{Op: Block, Namespace: "default", Entries: []Entry{{Policy: "p", Key: key, Cost: 1}},
			Adjustment: &Adjustment{Until: origin + limit.Time(hour), Actor: "ops", Note: "about " + key + ", by mail"}}
		w.must(now+9, block)
	}
	if !strings.Contains(w.snapshot(), person+", by mail") {
		t.Fatal("the test looks for nothing")
	}
	request := forgetOf(person)
	request.Adjustment.Actor, request.Adjustment.Note = "dpo", "as "+person+" asked"
	d := w.must(now+20, request)
	if got := d.Answer().Forgot; got != (Forgot{Counters: 3, Holds: 1, Audit: 1}) {
		t.Errorf("ended: %+v", got)
	}
	left := w.snapshot()
	left = strings.ReplaceAll(strings.ReplaceAll(left, person+"x", ""), "x"+person, "")
	if i := strings.Index(left, person); i >= 0 {
		t.Errorf("the key is still there: %q", left[max(0, i-40):i+60])
	}
	if got := w.forget(now+21, person); got != (Forgot{}) {
		t.Errorf("the second time there was still something: %+v", got)
	}
	w.wantUsed(now+22, "p", person, 0)
	w.wantUsed(now+22, "login", person, 0)
	for _, key := range []string{"other", person + "x", "x" + person} {
		w.wantUsed(now+22, "p", key, 3)
	}
	if d := w.must(now+23, checkOf("login", person, 1)); !d.Allowed {
		t.Errorf("the ladder is still up: %+v", d)
	}
	newest := auditOf(w, now+24)
	if a := newest[0]; a.Deed != "forget" || a.Actor != "dpo" || a.Key != ForgottenKey ||
		a.Note != "as "+ForgottenKey+" asked" {
		t.Errorf("the audit log has %+v", a)
	}
	if a := newest[len(newest)-1]; a.Deed != "block" || a.Key != ForgottenKey ||
		a.Note != "about "+ForgottenKey+", by mail" {
		t.Errorf("the record of the block is %+v", a)
	}
}

func TestTheHoldOfAForgottenKeyHasEnded(t *testing.T) {
	w := newForgetWorld(t)
	both := reserveOf(Entry{Policy: "p", Key: person, Cost: 2}, Entry{Policy: "p", Key: "team", Cost: 2})
	both.Hold.TTL = minute
	held := w.must(origin+1, both)
	taken := w.must(origin+2, checkOf("p", person, 3))
	w.forget(origin+3, person)
	if err := w.refused(origin+4, settleOf(both, held, Settlement{Action: ActionCommit})); err.Code != HoldEnded {
		t.Errorf("the hold is settled: %v", err)
	}
	w.must(origin+5, checkOf("p", person, 1))
	refund := checkOf("p", person, 3)
	w.must(origin+6, settleOf(refund, taken, Settlement{Action: ActionCancel}))
	w.wantUsed(origin+7, "p", person, 1) // nothing is given back that was forgotten
	w.wantUsed(origin+7, "p", "team", 2)
	w.wantUsed(origin+limit.Time(minute)+8, "p", "team", 0)
}

func TestAnOperationEndsBeforeItsKeyIsForgotten(t *testing.T) {
	c := newCrossing(t)
	charged := c.charge(origin + 1).Decision
	if got := c.forget(origin+2, "k"); got.Open != 2 || got.Counters != 0 {
		t.Errorf("an open leg: %+v", got)
	}
	c.want(origin+3, 3, "a leg whose key is to be forgotten")
	c.finish(origin+4, OperationCommitted, &charged)
	if got := c.forget(origin+5, "k"); got != (Forgot{Counters: 1, Operations: 1}) {
		t.Errorf("an ended leg: %+v", got)
	}
	c.want(origin+6, 0, "forgotten")
	// The decision is refunded: the leg has nothing to give back, and nothing to spend.
	settled := c.tell(origin+7, FinishLeg, func(r *Request) {
		r.Operation.Verdict = Verdict{ID: "x", Home: 1, Known: true, State: OperationSettled,
			Settled: &Settlement{Action: ActionCommit, Actual: []uint64{9}, Overage: OverageDebt}}
		r.Operation.Legs = []Leg{{Slot: mine, Allowed: true, Decision: charged.bare()}}
	})
	if settled.Err != nil {
		t.Error(settled.Err)
	}
	c.want(origin+8, 0, "settled after it was forgotten")
	for key := range c.state.All() {
		if key[0] == counterRecord {
			t.Errorf("there is a counter again: %q", key)
		}
	}
}

func TestAHeldOperationExpiresWhenItsKeyIsForgotten(t *testing.T) {
	for _, own := range []bool{true, false} { // the key is home's own, or only named in a leg
		c := newCrossing(t)
		c.about.Op, c.about.Home, c.hold = Reserve, mine, &HoldTerms{TTL: hour}
		leg := Leg{Slot: 5, Allowed: true, Decision: Decision{Allowed: true, DecidedAt: origin,
			Position: Position{5, 1, 1}, Index: 1, Limits: []LimitStatus{{Policy: "p", Limit: "a", Key: person}}}}
		concluded := c.tell(origin+1, Conclude, func(r *Request) { r.Operation.Legs = []Leg{leg} })
		if concluded.Err != nil || concluded.Decision.HoldExpires == 0 {
			t.Fatalf("%+v", concluded)
		}
		key := person
		if own {
			key = "k"
		}
		if got := c.forget(origin+2, key); got.Holds != 1 || got.Open != 1 {
			t.Errorf("a held operation: %+v", got)
		}
		c.want(origin+3, 0, "the hold has expired")
		duties := c.state.Duties(origin+4, 10)
		if len(duties) != 1 || duties[0].To != 5 || duties[0].Request.Operation.Verdict.State != OperationSettled {
			t.Fatalf("the leg is told %+v", duties)
		}
		c.tell(origin+5, Acknowledge, func(r *Request) {
			r.Operation.Leg, r.Operation.Verdict.State = 5, OperationSettled
		})
		if got := c.forget(origin+6, key); got.Open != 0 || got.Operations != 1 {
			t.Errorf("an ended operation: %+v", got)
		}
		if strings.Contains(c.snapshot(), person) != own {
			t.Errorf("the ruling names the key: %v", !own)
		}
		late := c.tell(origin+7, Settle, func(r *Request) {
			r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 3}, {Policy: "p", Key: person, Cost: 3}}
			r.Settlement = &Settlement{Action: ActionCancel,
				Target: Target{Hold: true, Operation: "x", Home: mine, DecidedAt: origin + 1}}
		})
		if late.Err == nil || late.Err.Code != HoldEnded {
			t.Errorf("the id says %+v", late)
		}
	}
}

// An entry has a bound, so a key with many records is forgotten in several.
func TestManyRecordsAreForgottenInSeveralEntries(t *testing.T) {
	w := newForgetWorld(t)
	for n := range auditKept {
		add := addBy("ops", person)
		add.Adjustment.Note = strings.Repeat("n", MaxNote)
		w.must(origin+limit.Time(n), add)
	}
	rounds, audit := 0, uint32(0)
	for more := true; more; rounds++ {
		done := w.forget(origin+limit.Time(2000+rounds), person)
		more, audit = done.More, audit+done.Audit
		if rounds > 20 {
			t.Fatal("no end of it")
		}
	}
	if rounds < 2 || audit != auditKept || strings.Contains(w.snapshot(), person) {
		t.Errorf("%d audit records in %d entries", audit, rounds)
	}
}

func TestAForgetIsAloneInItsBatch(t *testing.T) {
	w := newForgetWorld(t)
	results, _ := w.batch(origin+1, checkOf("p", person, 1), forgetOf(person), checkOf("p", person, 1))
	if len(results) != 1 {
		t.Errorf("%d of the requests before it and after it were decided together", len(results))
	}
	if results, _ = w.batch(origin+2, forgetOf(person), checkOf("p", person, 1)); len(results) != 1 {
		t.Errorf("%d of the requests after it were decided with it", len(results))
	}
}

// A copy that comes late must not end what was counted since.
func TestALateCopyOfAForgetEndsNothing(t *testing.T) {
	w := newForgetWorld(t)
	session := w.must(origin+1, Request{Op: OpenSession})
	request := forgetOf(person)
	request.Session, request.Number, request.Retry = session.Answer().Session, 1, true
	w.must(origin+2, checkOf("p", person, 1))
	w.must(origin+3, request)
	w.must(origin+4, checkOf("p", person, 2))
	late := w.must(origin+5, request)
	if got := late.Answer().Forgot; got != (Forgot{More: true}) {
		t.Errorf("the copy is answered %+v", got)
	}
	w.wantUsed(origin+6, "p", person, 2)
}

func TestAKeyIsReplacedWhereItStandsAlone(t *testing.T) {
	for text, want := range map[string]string{
		"a":            ForgottenKey,
		"a ticket":     ForgottenKey + " ticket",
		"ask a, not b": "ask " + ForgottenKey + ", not b",
		"banana aa a":  "banana aa " + ForgottenKey,
		"":             "",
	} {
		if got := withoutWord(text, "a"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestABillEndsOnlyIfItIsMeant: the bills are looked for in the batch that would end them, so a bill that has just
// begun is kept too, with all else of the key.
func TestABillEndsOnlyIfItIsMeant(t *testing.T) {
	plan, seats := billed(lifetimeOf(100)), billed(lifetimeOf(100))
	plan.Name, seats.Name = "plan", "seats"
	w := newWorld(t, plan, seats, onePolicy(lifetimeOf(10)))
	w.must(origin, checkOf("p", person, 3))
	for _, at := range []limit.Time{origin + 1, origin + anHour + 1} {
		w.must(at, checkOf("plan", person, 1))
	}
	w.must(origin+anHour+2, checkOf("seats", person, 1))
	w.must(origin+anHour+3, checkOf("plan", "bob", 1))
	unasked := forgetOf(person)
	unasked.Adjustment.Bills = false
	err := w.refused(origin+anHour+4, unasked)
	if err.Code != Conflict || err.Field != "bills" || !strings.Contains(err.Message, "2 of plan, 1 of seats") {
		t.Errorf("unasked: %v", err)
	}
	w.wantUsed(origin+anHour+5, "p", person, 3)
	if got := w.bills(origin+anHour+5, UsageQuery{Key: person}); len(got) != 3 {
		t.Errorf("the bills are %+v", got)
	}
	if got := w.forget(origin+anHour+6, person); got != (Forgot{Counters: 3}) {
		t.Errorf("ended: %+v", got)
	}
	if got := w.bills(origin+anHour+7, UsageQuery{}); len(got) != 1 || got[0].Key != "bob" {
		t.Errorf("left are %+v", got)
	}
	w.must(origin+anHour+8, unasked) // it has none any more
}

func TestAForgetNamesAKey(t *testing.T) {
	w := newForgetWorld(t)
	if err := w.refused(origin+3, forgetOf("")); err.Code != Invalid || err.Field != "key" {
		t.Errorf("no key: %v", err)
	}
}

// On a restored shard a key that is forgotten with a lease is as full as one that nobody has asked for: leases that were
// lost may still be spent.
func TestAForgottenKeyOfARestoreIsFullForLostLeases(t *testing.T) {
	for _, name := range []string{"tokens", "gcra"} {
		w := newWorld(t, leasing(leasable[name]))
		w.lease(origin, "a", 10)
		at := origin + limit.Time(second)
		w.goBack(w.backup(), at)
		w.forget(at+1, "k")
		w.room(at+limit.Time(leaseSpentLate), 0)
	}
}
