package shard

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// fill sets every field to a distinct value, so that a field omitted by the codec shows. The numbers of a limit are
// valid ones; package limit tests that all of them are encoded.
func fill(v reflect.Value, next *uint64) {
	*next++
	switch v.Type() {
	case reflect.TypeFor[limit.Limit]():
		v.Set(reflect.ValueOf(limit.Limit{Algorithm: limit.TokenBucket, Quota: *next, Period: 7, Count: 3, Initial: 2}))
		return
	case reflect.TypeFor[Leg](): // its decision contains no operation
		var leg Leg
		leg.Slot, leg.Allowed = slot.ID(*next%slot.Count), true
		for i := range reflect.TypeFor[Decision]().NumField() {
			if f := reflect.ValueOf(&leg.Decision).Elem().Field(i); f.Type() != reflect.TypeFor[*Verdict]() {
				fill(f, next)
			}
		}
		v.Set(reflect.ValueOf(leg))
		return
	}
	if v.Type() == reflect.TypeFor[Event]() { // one that can be
		v.Set(reflect.ValueOf(Event{Number: *next, Kind: EventSpike, Key: "k", Start: 5, End: 7,
			Sinks: []string{"ops"}, Why: "w"}))
		return
	}
	if v.Type() == reflect.TypeFor[Trace]() {
		v.Set(reflect.ValueOf(receivedTrace{ID: [16]byte{byte(*next), 1}, Span: [8]byte{2}}))
		return
	}
	if v.Type() == reflect.TypeFor[slot.ID]() {
		v.SetUint(*next % slot.Count)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("x", *next)) // names have a bound
	case reflect.Int:
		v.SetInt(int64(*next))
	case reflect.Int64:
		v.SetInt(int64(-*next))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(*next)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, next)
		fill(value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
		if l, ok := v.Addr().Interface().(*policy.Limit); ok {
			// of policies, not of limits that a request brings along
			l.Reason, l.OnRecovery, l.OnExceeded, l.Thresholds = "", 0, 0, nil
		}
		switch one := v.Addr().Interface().(type) { // the names are the request's
		case *Spike:
			one.Namespace, one.Policy, one.Key = "", "", ""
		case *Usage:
			one.Namespace = ""
		case *UsagePage:
			one.Unreadable = []Usage{{Policy: "p", Key: "k"}}
		}
	default:
		panic("a field of kind " + v.Kind().String() + " is new to the codec and to this test")
	}
}

func fullRequest() (r Request) {
	fill(reflect.ValueOf(&r).Elem(), new(uint64))
	r.Shard = 0 // the call has it
	return r
}

func fullDecision() (r Result) {
	fill(reflect.ValueOf(&r.Decision).Elem(), new(uint64))
	return r
}

func fullError() (r Result) {
	r.Err = new(Error)
	fill(reflect.ValueOf(r.Err).Elem(), new(uint64))
	r.Err.Code = Moved // no other has a shard and a slot
	return r
}

func TestEveryFieldOfARequestArrives(t *testing.T) {
	extreme := Request{Op: math.MaxUint8, NotAfter: math.MinInt64, Entries: []Entry{{Cost: math.MaxUint64}}}
	zone, err := limit.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	monthly := limit.Limit{Algorithm: limit.Calendar, Quota: 5,
		Cycle: &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15, Zone: zone}}
	want := []Request{fullRequest(), extreme, forwardedCheck("a", "b"),
		{Op: OpenSession}, {Op: Fetch, Document: "table"}, {Op: Swap, Document: "table", Body: []byte("{}")},
		checkInSession(math.MaxUint64, 0), checkInSession(0, math.MaxUint64), checkInSession(7, 6),
		{Op: Swap, Retry: true},
		// Each field that only some operations have, alone and at its smallest.
		{Op: Check,
			Entries: []Entry{{},
				{Limits: []policy.Limit{{Name: "day", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}},
					{Limit: monthly}}}}},
		{Op: Reserve, Entries: make([]Entry, 1), Hold: &HoldTerms{}},
		{Op: Settle, Entries: []Entry{{Limits: []policy.Limit{{Name: "only the name"}}}},
			Settlement: &Settlement{}},
		{Op: Settle, Entries: []Entry{{}, {Counted: []LimitPrint{0, math.MaxUint16}}}},
		{Op: Reset, Entries: make([]Entry, 1), Adjustment: &Adjustment{}},
		{Op: PutOverride, Entries: make([]Entry, 1), Adjustment: &Adjustment{Override: &policy.Override{}}},
		{Op: Forget, Adjustment: &Adjustment{Forget: "user:42", Actor: "a", Bills: true}},
		{Op: CorrectUsage, Entries: make([]Entry, 1), System: &SystemTerms{Correction: &Correction{}},
			Adjustment: &Adjustment{Amount: -5, Note: "n"}},
		{Op: PutOverride, Entries: make([]Entry, 1), Adjustment: &Adjustment{Amount: math.MinInt64,
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {}, "b": {Rate: new(uint64)}}}}},
		{Op: Tally, Entries: []Entry{{Limits: TallyLimits}}, Tally: &TallyTerms{}, Revision: math.MaxUint64},
		{Op: Tally, Entries: []Entry{{Limits: TallyLimits}}, Tally: &TallyTerms{Verb: math.MaxUint8,
			When: math.MaxUint8, KeepTTL: true, At: true, Amount: math.MinInt64, TTL: math.MaxInt64}},
		{Op: ReadTally, Entries: []Entry{{Limits: TallyLimits}}},
		{Op: AskHome, Operation: &Operation{}},
		{Op: FinishLeg, Operation: &Operation{Verdict: Verdict{Legs: make([]Leg, MaxEntries)}}},
		{Op: Settle, Entries: make([]Entry, 1), Settlement: &Settlement{}, Operation: &Operation{
			Excess: &Excess{ID: "x", Legs: make([]Leg, MaxEntries)}}},
		{Op: Charge, Entries: []Entry{{Limits: []policy.Limit{{Name: "only the name"}}}},
			Operation: &Operation{Op: Settle}},
		{Op: Swap, Document: strings.Repeat("d", MaxDocumentName), Expect: math.MaxUint64,
			Body: make([]byte, MaxDocumentBytes)},
	}
	for i := range want {
		c := MessageReader(requestMessage(&want[i]))
		var got Request
		if c.Request(&got); !c.Whole() || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%+v came as %+v", want[i], got)
		}
	}
}

func requestMessage(r *Request) string {
	c := MessageWriter(nil)
	c.Request(r)
	return string(c.Written())
}

func resultMessage(r *Result) string {
	c := MessageWriter(nil)
	c.Result(r)
	return string(c.Written())
}

// resultBack returns an answer that has come over the wire.
func resultBack(t *testing.T, s *SystemAnswer) *Decision {
	t.Helper()
	c := MessageReader(resultMessage(&Result{Decision: Decision{System: s}}))
	var back Result
	if c.Result(&back); !c.Whole() {
		t.Fatalf("%+v cannot be read", s)
	}
	return &back.Decision
}

// forwardedCheck returns a check of keys as a node forwards it.
func forwardedCheck(keys ...string) Request {
	r := Request{Op: Check, Namespace: "default"}
	for _, key := range keys {
		r.Entries = append(r.Entries, Entry{Policy: "p", Key: key, Cost: 1})
	}
	return r
}

func checkInSession(number, acked uint64) Request {
	r := forwardedCheck("k")
	r.Session = Session{Epoch: math.MaxUint64, Seq: 300, Index: math.MaxUint32}
	r.Number, r.Acked = number, acked
	return r
}

// Requests without a session or a document spend no bytes on them.
func TestASessionCostsAFewBytesAndOnlyWhereThereIsOne(t *testing.T) {
	plain := forwardedCheck("k")
	travelling := plain
	travelling.Session, travelling.Number, travelling.Acked = Session{Epoch: 10_000, Seq: 10_000, Index: 1},
		1<<20, 1<<20-100
	travelling.Retry = true
	before, after := len(requestMessage(&plain)), len(requestMessage(&travelling))
	if last := requestMessage(&plain); last[len(last)-1] != byte(plain.Entries[0].Cost) {
		t.Errorf("a plain request ends with %x, not with its entry", last)
	}
	if after-before > 12 {
		t.Errorf("a session costs %d bytes", after-before)
	}
}

func TestEveryFieldOfAResultArrives(t *testing.T) {
	extreme := Result{Decision: Decision{RetryAfter: limit.Never, DecidedAt: math.MaxInt64, Index: math.MaxUint32,
		Position: Position{Shard: math.MaxUint32, Epoch: math.MaxUint64, Seq: math.MaxUint64}}}
	sameEntry := Result{Decision: Decision{Limits: []LimitStatus{
		{Policy: "p", Key: "k", Limit: "minute"}, {Policy: "p", Key: "k", Limit: "day"}, {Policy: "p", Key: "l"}, {}}}}
	largest := Document{Version: math.MaxUint64, Body: make([]byte, MaxDocumentBytes)}
	lockedOut := Result{Decision: Decision{Limits: []LimitStatus{{LockoutLevel: math.MaxUint32}, {Blocked: true},
		{BlockedUntil: math.MaxInt64}, {Held: 1}, {Granted: math.MaxUint64}, {Uncounted: true},
		{Blocked: true, ByHand: true}}}}
	want := []Result{fullDecision(), fullError(), extreme, sameEntry, {}, lockedOut,
		{Decision: Decision{HoldExpires: 1}},
		{Decision: Decision{System: &SystemAnswer{Audit: make([]AuditRecord, 1)}}},
		{Decision: Decision{System: &SystemAnswer{Forgot: Forgot{Counters: 1, Holds: 2, Operations: 3, Audit: 4,
			Open: math.MaxUint32, More: true}}}},
		{Decision: Decision{Operation: &Verdict{}}}, {Decision: Decision{Age: math.MaxInt64}},
		{Decision: Decision{Tallied: &Tallied{}}},
		{Decision: Decision{Tallied: &Tallied{Was: true, Before: math.MinInt64, Value: math.MaxInt64,
			EndsAt: math.MaxInt64}}},
		{Decision: Decision{System: &SystemAnswer{Document: largest}}},
		{Decision: Decision{System: &SystemAnswer{Session: Session{Index: 1}}}}}
	for code := range 256 {
		want = append(want, Result{Err: &Error{Code: Code(code)}}) // every code keeps its fate
	}
	for i := range want {
		c := MessageReader(resultMessage(&want[i]))
		var got Result
		if c.Result(&got); !c.Whole() || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%+v came as %+v", want[i], got)
		}
	}
}

// Data from a peer is not trusted: the bounds are checked on arrival, too.
func TestWhatNoFrameMayCarryIsRefusedWhenItArrives(t *testing.T) {
	for name, request := range map[string]Request{
		"no entry":         {Op: Check},
		"an unknown op":    {Op: Acknowledge + 1},
		"too many entries": {Op: Swap, Entries: make([]Entry, MaxEntries+1)},
		"a long name":      {Op: Fetch, Document: strings.Repeat("d", MaxDocumentName+1)},
		"a large body":     {Op: Swap, Document: "d", Body: make([]byte, MaxDocumentBytes+1)},
		"too many limits": {Op: Swap, Entries: []Entry{{Limits: slices.Repeat(
			[]policy.Limit{{Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}, MaxLimits+1)}}},
		"a charge of none": {Op: Charge, Entries: []Entry{{Limits: []policy.Limit{{Name: "a"}}}},
			Operation: &Operation{Op: Check}},
		"a limit that is none":  {Op: Swap, Entries: []Entry{{Limits: []policy.Limit{{}}}}},
		"too many legs":         {Op: AskHome, Operation: &Operation{Legs: make([]Leg, MaxEntries+1)}},
		"too many counted":      {Op: Settle, Entries: []Entry{{Counted: make([]LimitPrint, MaxLimits+1)}}},
		"too many actual costs": {Op: Swap, Settlement: &Settlement{Actual: make([]uint64, MaxEntries+1)}},
	} {
		c := MessageReader(requestMessage(&request))
		if c.Request(new(Request)); c.Whole() {
			t.Errorf("%s: taken", name)
		}
	}
	largeAnswer := Result{Decision: Decision{System: &SystemAnswer{
		Document: Document{Version: 1, Body: make([]byte, MaxDocumentBytes+1)}}}}
	c := MessageReader(resultMessage(&largeAnswer))
	if c.Result(new(Result)); c.Whole() {
		t.Error("a document that is too large: taken")
	}
}

// A leg's decision is never sent with an operation in it, and refused if it has one: with nested operations a peer
// could choose how deep a reader recurses.
func TestAnOperationContainsNoOther(t *testing.T) {
	inner := Result{Decision: Decision{Operation: &Verdict{ID: "inner"}}}
	outer := Result{Decision: Decision{Operation: &Verdict{Legs: []Leg{{Decision: inner.Decision}}}}}
	sent := resultMessage(&outer)
	c := MessageReader(sent)
	var got Result
	if c.Result(&got); !c.Whole() || got.Decision.Operation.Legs[0].Decision.Operation != nil {
		t.Errorf("it came as %+v", got.Decision.Operation)
	}
	c = MessageReader(sent[:len(sent)-len(resultMessage(&Result{}))] + resultMessage(&inner))
	if c.Result(new(Result)); c.Whole() {
		t.Error("a leg with an operation in it: taken")
	}
}

// A trace that is none fails its request alone.
func TestATraceThatIsNoneIsUnreadable(t *testing.T) {
	written := func(at TraceContext) string {
		c, followed := MessageWriter(nil), Trace(receivedTrace(at))
		c.trace(&followed)
		return string(c.Written())
	}
	good := written(TraceContext{ID: [16]byte{1}, Span: [8]byte{2}})
	for name, text := range map[string]string{
		"cut short":       good[:len(good)-1],
		"another version": "\x01" + good[1:],
		"not followed":    good[:len(good)-1] + "\x00",
		"no trace":        written(TraceContext{Span: [8]byte{2}}),
		"no span":         written(TraceContext{ID: [16]byte{1}}),
	} {
		c := MessageReader(text)
		var got Trace
		if c.trace(&got); c.Whole() || got != nil {
			t.Errorf("%s: taken as %v", name, got)
		}
	}
	c := MessageReader(good)
	var got Trace
	if c.trace(&got); !c.Whole() || got == nil {
		t.Error("a trace is not taken")
	}
}

// No input panics, and accepted input is written as the same request or result again.
func FuzzMessage(f *testing.F) {
	full, result, failed := fullRequest(), fullDecision(), fullError()
	f.Add(requestMessage(&full), resultMessage(&result))
	f.Add(requestMessage(new(checkInSession(9, 8))), resultMessage(&failed))
	f.Add(requestMessage(&Request{Op: Tally, Entries: []Entry{{Limits: TallyLimits}}, Tally: &TallyTerms{Amount: -1}}),
		resultMessage(&Result{}))
	f.Add(requestMessage(&Request{Op: Acknowledge, Operation: &Operation{ID: "x", Leg: 3}}), "")
	f.Fuzz(func(t *testing.T, request, result string) {
		c := MessageReader(request)
		var r, again Request
		if c.Request(&r); c.Whole() {
			c = MessageReader(requestMessage(&r))
			if c.Request(&again); !c.Whole() || !reflect.DeepEqual(again, r) {
				t.Errorf("%+v came back as %+v", r, again)
			}
		}
		c = MessageReader(result)
		var d, back Result
		if c.Result(&d); c.Whole() {
			c = MessageReader(resultMessage(&d))
			if c.Result(&back); !c.Whole() || !reflect.DeepEqual(back, d) {
				t.Errorf("%+v came back as %+v", d, back)
			}
		}
	})
}
