package shard

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// A record may be unreadable to this version, because a newer version wrote it, memory failed, or there is a defect.
// That is an error of its keys. The tests spoil every kind of record in every situation in which it is read: a request
// that needs it is refused as Unreadable, nothing changes, and all other requests are served as before.

// spoil makes every record of some kinds unreadable, as if an owner of another version had written it.
func (w *world) spoil(kinds string) (spoilt int) {
	w.Helper()
	var puts []Put
	for key, r := range allRecords(w.state) {
		if strings.IndexByte(kinds, key[0]) >= 0 {
			value := bytes.Clone(r.Value)
			value[0] = 0xee // an unknown format
			puts = append(puts, Put{Key: key, Record: Record{Value: value, ForgetAt: r.ForgetAt}})
		}
	}
	w.append(EncodeBatch(w.next(w.state.Time()), puts))
	return len(puts)
}

// stranger checks that another key of the shard is served.
func (w *world) stranger() {
	w.Helper()
	results, _ := w.batch(w.state.Time()+1, checkOf("p", "stranger", 1))
	if err := results[0].Err; err != nil || !results[0].Decision.Allowed {
		w.Errorf("another key is not served: %+v", results[0])
	}
}

func TestAnUnreadableCounterIsAnErrorOfItsKey(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	w.batch(origin+1, checkOf("p", "k", 1))
	if w.spoil("k") != 1 {
		t.Fatal("there is no counter")
	}
	w.stranger()
	entries := []Entry{{Policy: "p", Key: "stranger", Cost: 1}, {Policy: "p", Key: "k", Cost: 1}}
	for op := Check; op <= DeleteOverride; op++ {
		r := Request{Op: op, Namespace: "default", Entries: entries, Hold: &HoldTerms{TTL: second}}
		switch op {
		case OpenSession, Fetch, Swap:
			continue
		case Settle:
			r.Settlement = &Settlement{Action: ActionCommit,
				Target: Target{Position: Position{Shard: 3}, DecidedAt: w.state.Time()}}
		case SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride:
			r.Entries = entries[1:]
			r.Adjustment = &Adjustment{Amount: 1, Until: limit.MaxTime, Override: &policy.Override{Tier: "x"}}
		}
		results, puts := w.batch(w.state.Time()+1, r, checkOf("p", "stranger", 1))
		err := results[0].Err
		if err == nil || err.Code != Unreadable || err.MaybeApplied() || !strings.Contains(err.Message, `"p"`) ||
			err.Field != fmt.Sprintf("entries[%d].key", len(r.Entries)-1) {
			t.Errorf("operation %d: %+v", op, results[0])
		}
		if results[1].Err != nil || len(puts) != 1 || puts[0].Key == counterKeyOf("p", "k") {
			t.Errorf("behind operation %d: %+v, %d effects", op, results[1], len(puts))
		}
	}
}

func counterKeyOf(policy, key string) string {
	return string(appendCounterKey(nil, "default", policy, key))
}

// An owner with a newer database counted by a zone that this one does not have. The policy has been changed since, and
// only one key's record names the zone.
func TestAZoneThatThisVersionDoesNotKnow(t *testing.T) {
	zone, err := limit.LoadZone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	daily := limit.Limit{Algorithm: limit.Calendar, Quota: 5,
		Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone}}
	w := newWorld(t, onePolicy(daily))
	_, puts := w.batch(origin+1, checkOf("p", "k", 1))
	foreign := puts[0]
	foreign.Value = bytes.Replace(foreign.Value, []byte("America/New_York"), []byte("America/New_Land"), 1)
	w.append(EncodeBatch(w.next(origin+2), []Put{foreign}))
	w.policies = policy.NewSet([]*policy.Policy{onePolicy(windowLimit)})
	results, _ := w.batch(origin+3, checkOf("p", "k", 1), checkOf("p", "other", 1))
	if err := results[0].Err; err == nil || err.Code != Unreadable ||
		!strings.Contains(err.Message, "America/New_Land") {
		t.Errorf("%+v", results[0])
	}
	if results[1].Err != nil {
		t.Errorf("another key is not served: %v", results[1].Err)
	}
}

func TestUnreadableAnswersAndEnds(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	s := opened(w, origin)
	again := checkOf("p", "k", 1)
	again.ID = "id"
	held := Request{Op: Reserve, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}},
		Hold: &HoldTerms{TTL: hour}}
	results, _ := w.batch(origin+1, again, inSession(held, s, 1, 0), held)
	d := &results[2].Decision
	cancel := Request{Op: Settle, Namespace: "default", Entries: held.Entries,
		Settlement: &Settlement{Action: ActionCancel,
			Target: Target{Hold: true, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
	if results, _ = w.batch(origin+2, cancel); results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	if n := w.spoil("inh"); n != 3 {
		t.Fatalf("%d records were spoilt", n)
	}
	w.stranger()
	copied := inSession(held, s, 1, 0)
	copied.Retry = true
	results, puts := w.batch(origin+hour64, again, copied, cancel)
	for i, want := range []struct {
		code  Code
		field string
	}{{Unreadable, "idempotency_id"}, {UnknownOutcome, ""}, {Unreadable, "hold_id"}} {
		if err := results[i].Err; err == nil || err.Code != want.code || err.Field != want.field {
			t.Errorf("%d: %+v", i, results[i])
		}
	}
	if len(puts) != 0 {
		t.Errorf("%d effects", len(puts))
	}
}

const hour64 = limit.Time(minute)

// The entry node opens another session, as if this one had been forgotten.
func TestAnUnreadableSessionIsGone(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	s := opened(w, origin)
	w.batch(origin+1, inSession(checkOf("p", "k", 1), s, 1, 0))
	if w.spoil("s") != 1 {
		t.Fatal("there is no session")
	}
	w.stranger()
	results, _ := w.batch(origin+2, inSession(checkOf("p", "k", 1), s, 2, 1))
	if err := results[0].Err; err == nil || err.Code != SessionGone {
		t.Errorf("%+v", results[0])
	}
}

func TestUnreadableLegsAndRulings(t *testing.T) {
	for _, c := range []struct {
		kind string
		ops  []Op
		make func(*crossing)
	}{
		{"l", []Op{Charge, FinishLeg}, func(c *crossing) { c.charge(origin + 1) }},
		{"o", []Op{AskHome, Conclude, ResolveHome, Acknowledge}, func(c *crossing) { c.conclude(origin+1, true, 0) }},
	} {
		w := newCrossing(t)
		c.make(w)
		if w.spoil(c.kind) != 1 {
			t.Fatalf("there is no record of kind %q", c.kind)
		}
		w.stranger()
		for _, op := range c.ops {
			if r := w.tell(w.state.Time()+1, op, nil); r.Err == nil || r.Err.Code != Unreadable ||
				r.Err.Field != "operation" {
				t.Errorf("operation %d: %+v", op, r)
			}
		}
		if duties := w.state.Duties(limit.Forever, 10); len(duties) != 0 {
			t.Errorf("a duty was read out of an unreadable record: %+v", duties)
		}
	}
}

// A leg with an unreadable key does not end, and reports that. When it is readable again, nothing of it is given back
// or spent twice.
func TestALegOfAnUnreadableKeyWaits(t *testing.T) {
	for _, state := range []OperationState{OperationAborted, OperationCommitted, OperationSettled} {
		c := newCrossing(t)
		charged := c.charge(origin + 1).Decision
		record, _ := c.Lookup(counterKeyOf("p", "k"))
		record.Value = bytes.Clone(record.Value)
		c.spoil("k")
		if r := c.finish(origin+2, state, &charged); r.Err == nil || r.Err.Code != Unreadable {
			t.Errorf("state %d: %+v", state, r)
		}
		c.append(EncodeBatch(c.next(origin+3), []Put{{Key: counterKeyOf("p", "k"), Record: record}}))
		if r := c.finish(origin+4, state, &charged); r.Err != nil {
			t.Errorf("readable again, state %d: %v", state, r.Err)
		}
		want := uint64(3)
		if state != OperationCommitted {
			want = 0
		}
		if used := c.used(origin + 5); used != want {
			t.Errorf("state %d: %d are used", state, used)
		}
	}
}

// An unreadable audit log prevents no change, and lists the entries that it cannot read.
func TestUnreadableAuditRecords(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	set := adjustOf(SetUsed, "p", "k", Adjustment{Amount: 1, Actor: "kim"})
	w.batch(origin+1, set)
	w.spoil("u")
	w.batch(origin+2, set)
	results, _ := w.batch(origin+3, Request{Op: ReadAudit})
	if audit := results[0].Decision.Answer().Audit; len(audit) != 2 || audit[0].Deed != "set" ||
		audit[1].Deed != "unreadable" {
		t.Errorf("%+v", audit)
	}
	w.spoil("U")
	if results, _ = w.batch(origin+4, set); results[0].Err != nil {
		t.Error(results[0].Err)
	}
}

func TestUnreadableDocumentsAndPolicies(t *testing.T) {
	w := newSystem(t)
	w.batch(origin+1, swapOf("table", 0, "x"))
	w.append(EncodeBatch(w.next(origin+2), []Put{adoptPut(policy.Revision{Version: 7, Text: []byte("x")}, nil)}))
	if w.spoil("da") != 2 {
		t.Fatal("there are no two records")
	}
	// Version 0 would mean that the document does not exist, and the node would write the first one.
	if d, err := ReadDocument(w, "table"); err == nil {
		t.Errorf("read as %+v", d)
	}
	if version, _, err := Adopted(w); err == nil {
		t.Errorf("read as version %d", version)
	}
	results, puts := w.batch(origin+3, Request{Op: Fetch, Document: "table"}, swapOf("table", 0, "y"),
		swapOf("other", 0, "z"))
	for i := range 2 {
		if err := results[i].Err; err == nil || err.Code != Unreadable || err.Field != "document" {
			t.Errorf("%d: %+v", i, results[i])
		}
	}
	if results[2].Err != nil || len(puts) != 1 {
		t.Errorf("another document: %+v", results[2])
	}
}

// Requests that the API rejects may still come from another node: a newer one, or one with a defect.
func TestARequestThatNoDoorLetsThroughFailsAlone(t *testing.T) {
	long := strings.Repeat("k", table.MaxKeyBytes)
	entry := func(change func(*Entry)) func(*Request) {
		return func(r *Request) { change(&r.Entries[0]) }
	}
	operation := func(change func(*Operation)) func(*Request) {
		return func(r *Request) {
			r.Op, r.Operation = Charge, &Operation{ID: "x", Op: Check, Home: 1, TTL: operationTTL}
			change(r.Operation)
		}
	}
	for _, c := range []struct {
		field  string
		change func(*Request)
	}{
		{"entries[0].cost", func(r *Request) { r.Op, r.Entries[0].Cost = Partial, 0 }},
		{"entries[0].cost", func(r *Request) { r.Op, r.Entries[0].Cost = Count, 0 }},
		{"entries[0].cost", entry(func(e *Entry) { e.Cost = limit.MaxCost + 1 })},
		{"entries[0].cost", func(r *Request) { r.Op, r.Hold, r.Entries[0].Cost = Reserve, &HoldTerms{TTL: second}, 0 }},
		{"entries[0].key", entry(func(e *Entry) { e.Key = long })},
		{"entries[0].key", entry(func(e *Entry) { e.Policy = long })},
		{"idempotency_id", func(r *Request) { r.ID = long }},
		{"idempotency_id", func(r *Request) { r.Namespace = long }},
		{"not_after", func(r *Request) { r.NotAfter = math.MaxInt64 }},
		{"entries[0].cost", operation(func(o *Operation) { o.Op = Count })},
		{"entries[0].limits", entry(func(e *Entry) { e.Limits = []policy.Limit{{Name: long, Limit: windowLimit}} })},
		{"entries[0].limits", entry(func(e *Entry) { e.Tier = long })},
		{"operation.id", func(r *Request) {
			r.Op, r.Namespace = Charge, long[:textMost-10]
			r.Operation = &Operation{ID: long[:20], Op: Check, Home: 1, TTL: operationTTL}
			r.Entries[0].Key = "k"
		}},
		{"operation.ttl", operation(func(o *Operation) { o.TTL = math.MaxInt64 })},
		{"operation.ttl", operation(func(o *Operation) { o.Verdict.Expires = -1 })},
		{"operation.legs[0].decided_at", operation(func(o *Operation) {
			o.Legs = []Leg{{Decision: Decision{DecidedAt: math.MinInt64}}}
		})},
	} {
		w := newWorld(t, onePolicy(windowLimit))
		r := checkOf("p", "k", 1)
		c.change(&r)
		if c.field == "entries[0].cost" && r.Operation != nil {
			r.Entries[0].Cost = 0
		}
		results, puts := w.batch(origin+1, r, checkOf("p", "k", 1))
		if err := results[0].Err; err == nil || err.Code != Invalid || err.Field != c.field {
			t.Errorf("%s: %+v", c.field, results[0])
		}
		if results[1].Err != nil || len(puts) != 1 {
			t.Errorf("%s: the next request: %+v", c.field, results[1])
		}
	}
}

// faulty is a view with a defect: looking up some keys panics.
type faulty struct {
	*world
	bad map[string]bool
}

func (f faulty) Lookup(key string) (Record, bool) {
	if f.bad[key] {
		panic("no such key, and no such place")
	}
	return f.world.Lookup(key)
}

// A defect of this package fails the request that runs into it, and no other. The effects are those of the same
// requests without it.
func TestADefectFailsOneRequest(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	view := faulty{w, map[string]bool{counterKeyOf("p", "k2"): true, counterKeyOf("p", "k5"): true}}
	var requests, sound []Request
	for i := range 8 {
		r := checkOf("p", fmt.Sprint("k", i%7), 1)
		r.Entries = append(r.Entries, Entry{Policy: "p", Key: "shared", Cost: 1})
		requests = append(requests, r)
		if i != 2 && i != 5 {
			sound = append(sound, r)
		}
	}
	at := w.next(origin + 1)
	results, puts := Evaluate(view, w.policies, requests, at)
	if len(results) != 3 || results[1].Err != nil || results[2].Err == nil {
		t.Fatalf("%d answers: %+v", len(results), results)
	}
	err := results[2].Err
	if err.Code != Fault || err.MaybeApplied() || !strings.Contains(err.Message, "no such place") ||
		!strings.Contains(err.Message, "poison_test.go") {
		t.Errorf("%+v", err)
	}
	wantResults, wantPuts := Evaluate(w, w.policies, sound[:2], at)
	if !reflect.DeepEqual(results[:2], wantResults) || !reflect.DeepEqual(puts, wantPuts) {
		t.Errorf("the requests before it: %+v, want %+v", puts, wantPuts)
	}
	for rest := requests[len(results):]; len(rest) > 0; rest = rest[len(results):] {
		w.append(EncodeBatch(at, puts))
		at = w.next(at.Now + 1)
		results, puts = Evaluate(view, w.policies, rest, at)
	}
	if results[len(results)-1].Err != nil {
		t.Errorf("the last: %+v", results)
	}
	w.append(EncodeBatch(at, puts))
	results, _ = w.batch(at.Now+1, Request{Op: Get, Namespace: "default",
		Entries: []Entry{{Policy: "p", Key: "shared"}}})
	if used := results[0].Decision.Limits[0].Used; used != 6 {
		t.Errorf("6 requests were carried out, %d were counted", used)
	}
}

// A defect may show only when effects are encoded, and then does not show which request caused it. That request is
// found.
func TestADefectOfAnEffectFailsOneRequest(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	var requests []Request
	for i := range 9 {
		requests = append(requests, checkOf("p", fmt.Sprint("k", i), 1))
	}
	spoilt := onePolicy(windowLimit)
	spoilt.Name = "q"
	spoilt.Limits[0].Cycle = &limit.Cycle{} // without a zone
	spoilt.Limits[0].Algorithm = limit.Calendar
	w.policies = policy.NewSet([]*policy.Policy{onePolicy(windowLimit), spoilt})
	for bad := range requests {
		broken := append([]Request(nil), requests...)
		broken[bad] = checkOf("q", "k", 1)
		at := w.next(origin + 1)
		results, puts := evaluateAround(w, w.policies, broken, at, len(broken)-1, &Error{Code: Fault})
		if len(results) != bad+1 || results[bad].Err == nil || results[bad].Err.Code != Fault || len(puts) != bad {
			t.Errorf("request %d: %d answers, %d effects, the last is %+v",
				bad, len(results), len(puts), results[len(results)-1])
		}
		again, same := Evaluate(w, w.policies, broken, at)
		if again[bad].Err.Code != Fault || !reflect.DeepEqual(again[:bad], results[:bad]) ||
			!reflect.DeepEqual(same, puts) {
			t.Errorf("request %d: %+v, %d effects", bad, again, len(same))
		}
	}
}
