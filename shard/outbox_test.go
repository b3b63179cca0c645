package shard

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// told returns a world in which two sinks wait for n events of different keys.
func told(t testing.TB, n int) *world {
	p := noted(lifetimeOf(10), units(1))
	p.Notify = []string{"billing", "ops"}
	w := newWorld(t, p)
	for i := range n {
		w.must(origin+limit.Time(i), checkOf("p", fmt.Sprint("k", i), 1))
	}
	return w
}

// places returns those of events.
func places(events []Event) (all []EventPlace) {
	for i := range events {
		all = append(all, events[i].Place())
	}
	return all
}

// changed sends a request about events, and checks how many it has changed.
func (w *world) changed(now limit.Time, r Request, want uint32) {
	w.Helper()
	d := w.must(now, r)
	c, err := EventsChangedOf(&d)
	if err != nil || c != (EventsChanged{Done: want}) {
		w.Fatalf("it has changed %+v, %v, must be %d", c, err, want)
	}
}

// mustHave checks how many events are in which list, and that the figures say so.
func (w *world) mustHave(waiting, dead, past int, lost uint64) {
	w.Helper()
	page, err := ReadEvents(w, EventsQuery{})
	if err != nil {
		w.Fatal(err)
	}
	var bytes uint64
	for key, r := range w.All() {
		if key[0] == eventRecord {
			bytes += uint64(len(key) + len(r.Value))
		}
	}
	if got := []int{len(w.events(EventsWaiting)), len(w.events(EventsDead)),
		len(w.events(EventsPast))}; !reflect.DeepEqual(got, []int{waiting, dead, past}) ||
		page.Waiting != uint64(waiting) || page.Dead != uint64(dead) || page.Lost != lost ||
		page.WaitingBytes != bytes {
		w.Fatalf("%v are waiting, dead and past, must be %v; the page says %+v, the records have %d bytes",
			got, []int{waiting, dead, past}, page, bytes)
	}
}

// An event waits until each of its sinks has acknowledged it, and no longer.
func TestAnEventWaitsForEachOfItsSinks(t *testing.T) {
	w := told(t, 3)
	w.mustHave(3, 0, 0, 0)
	all := places(w.events(EventsWaiting))
	w.changed(origin+10, AcknowledgeRequest(3, "billing", all[:2]), 2)
	w.changed(origin+11, AcknowledgeRequest(3, "billing", all), 1) // a copy, and one more
	w.changed(origin+12, AcknowledgeRequest(3, "nobody", all), 0)
	// of another history
	w.changed(origin+13, AcknowledgeRequest(3, "ops", []EventPlace{{all[1].Number, all[1].At + 1}, {99, origin}}), 0)
	w.mustHave(3, 0, 0, 0)
	w.changed(origin+14, AcknowledgeRequest(3, "ops", all[1:]), 2)
	w.mustHave(1, 0, 2, 0)
	if e := w.events(EventsWaiting)[0]; e.Key != "k0" || !slices.Equal(e.Sinks, []string{"ops"}) {
		t.Errorf("it waits: %+v", e)
	}
}

// An event that a sink gave up is its dead letter. A replay brings it back for that sink, with its id.
func TestADeadLetterIsReplayed(t *testing.T) {
	w := told(t, 2)
	before := w.events(EventsWaiting)
	w.changed(origin+10, GiveUpRequest(3, "ops", places(before), "it answered 500"), 2)
	w.changed(origin+11, GiveUpRequest(3, "ops", places(before), "it answered 501"), 0)
	w.mustHave(2, 2, 0, 0)
	w.changed(origin+12, GiveUpRequest(3, "billing", places(before[:1]), strings.Repeat("é", WhyMost)), 1)
	w.mustHave(1, 3, 1, 0)
	for i, want := range []string{"it answered 500", "it answered 500", strings.Repeat("é", WhyMost/2)} {
		if why := w.events(EventsDead)[i].Why; why != want {
			t.Errorf("letter %d is dead because %q, not %q", i, why, want)
		}
	}
	w.changed(origin+13, ReplayRequest(3, "ops", places(w.events(EventsDead)[1:])), 1)
	w.mustHave(2, 2, 1, 0)
	if e := w.events(EventsWaiting)[1]; e.Key != "k1" || !slices.Equal(e.Sinks, []string{"ops"}) ||
		e.ID("l") != before[1].ID("l") || e.At != before[1].At || e.Why != "" {
		t.Errorf("it waits again: %+v", e)
	}
	replay := ReplayRequest(3, "", nil)
	replay.Adjustment = &Adjustment{Actor: "jo", Note: "the receiver is back"}
	w.changed(origin+14, replay, 2)
	told := w.decided(Request{Op: ReadAudit, Namespace: "default", Entries: replay.Entries})
	if audit := told.Answer().Audit; len(audit) != 1 || audit[0].Deed != "replay" ||
		audit[0].Actor != "jo" || audit[0].Note != "the receiver is back" ||
		audit[0].After != "2 dead letters of all sinks wait again" {
		t.Errorf("audited: %+v", audit)
	}
	w.mustHave(4, 0, 1, 0)
	w.changed(origin+15, ReplayRequest(3, "", nil), 0)
}

// A full outbox stops no decision: its oldest events become dead letters, and those that are dropped are counted.
func TestAFullOutboxStopsNothing(t *testing.T) {
	p := noted(lifetimeOf(10), units(1))
	p.Notify = nil
	for i := range 8 {
		p.Notify = append(p.Notify, fmt.Sprintf("%d%s", i, strings.Repeat("x", 63)))
	}
	w := newWorld(t, p)
	fired, now := 0, origin
	for page := (EventsPage{}); page.Lost == 0; now++ {
		var requests []Request
		for range 100 {
			requests = append(requests, checkOf("p", fmt.Sprintf("%0512d", fired), 1))
			fired++
		}
		results, _ := w.batch(now, requests...)
		fired -= len(requests) - len(results)
		for i := range results {
			if results[i].Err != nil || !results[i].Decision.Allowed {
				t.Fatalf("%+v", results[i])
			}
		}
		var err error
		if page, err = ReadEvents(w, EventsQuery{}); err != nil || page.WaitingBytes > outboxMost ||
			page.Waiting+page.Dead+page.Lost != uint64(fired) || page.Dead > deadKept {
			t.Fatalf("after %d: %+v, %v", fired, page, err)
		}
		if page.Lost > 0 && page.Events[0].Number != page.Dead+page.Lost {
			t.Fatalf("not the oldest are gone: %d waits", page.Events[0].Number)
		}
	}
	if page, err := ReadEvents(w, EventsQuery{List: EventsDead, Most: 1}); err != nil || page.Events[0].Why != whyFull {
		t.Errorf("%v: a dead letter is %+v", err, page.Events)
	}
	audit(t, w.state)
}

// On a brimful shard nothing grows: the event is lost, and the decision is not.
func TestABrimfulShardLosesTheEventOnly(t *testing.T) {
	w := told(t, 1)
	w.must(origin+5, Request{Op: Reset, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k0", Cost: 1}}})
	p := noted(lifetimeOf(10), units(5))
	w.policies = policy.NewSet([]*policy.Policy{p})
	w.must(origin+6, checkOf("p", "k0", 4))
	w.brim = true
	if d := w.must(origin+7, checkOf("p", "k0", 1)); !d.Allowed {
		t.Errorf("%+v", d)
	}
	w.mustHave(1, 0, 0, 1)
}

// The forgotten key is in no event.
func TestAForgottenKeyIsInNoEvent(t *testing.T) {
	w := told(t, 3)
	all := w.events(EventsWaiting)
	w.changed(origin+10, GiveUpRequest(3, "ops", places(all[1:2]), ""), 1)
	w.changed(origin+11, AcknowledgeRequest(3, "billing", places(all[1:2])), 1)
	w.must(origin+12,
		SpikeRequest(&Spike{Namespace: "default", Policy: "p", Key: "k1", At: origin, Denials: 100, Mean: 1}))
	w.mustHave(3, 1, 1, 0)
	w.must(origin+13, forgetOf("k1"))
	w.mustHave(2, 0, 0, 0)
	for key, r := range w.All() {
		if strings.Contains(string(key)+string(r.Value), "k1") {
			t.Errorf("%q: %q", key, r.Value)
		}
	}
}

// A spike is reported once in ten minutes, by any node.
func TestASpikeIsToldOnceInTenMinutes(t *testing.T) {
	w := told(t, 0)
	spike := func(now, at limit.Time, policy, key string) bool {
		d := w.must(now,
			SpikeRequest(&Spike{Namespace: "default", Policy: policy, Key: key, At: at, Denials: 120, Mean: 7}))
		return d.Index != 0
	}
	tenMinutes := limit.Time(SpikeCooldown)
	for _, c := range []struct {
		now, at     limit.Time
		policy, key string
		want        bool
	}{
		{origin + 1, origin, "p", "ann", true},
		{origin + 2, origin, "p", "ann", false}, // a copy, or another owner
		{origin + 3, origin, "p", "bob", true},
		{origin + 4, origin, "gone", "ann", false},
		{origin + tenMinutes, origin + tenMinutes, "p", "ann", false},
		{origin + tenMinutes + 2, origin + tenMinutes, "p", "ann", true},
		{origin + tenMinutes + limit.Time(2*minute), origin + tenMinutes, "p", "bob", false}, // a copy that is late
	} {
		if got := spike(c.now, c.at, c.policy, c.key); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	w.mustHave(3, 0, 0, 0)
	if e := w.events(EventsWaiting)[0]; e.Kind != EventSpike || e.Denials != 120 || e.Mean != 7 || e.Key != "ann" ||
		e.Start != origin-limit.Time(minute) || e.End != origin || len(e.Sinks) != 2 {
		t.Errorf("%+v", e)
	}
}

// A position replaces only the one that its pusher has read.
func TestAPushGoesOnlyForward(t *testing.T) {
	w := told(t, 0)
	p := Push{Sink: "stripe", Period: "plan/calls/2026-01", Position: []byte("a"), Until: origin + limit.Time(hour)}
	if d := w.must(origin+1, PushRequest(3, &p)); d.Answer().Document.Version != 1 {
		t.Errorf("%+v", d.Answer().Document)
	}
	late := p
	p.Version, p.Position = 1, []byte("b")
	w.must(origin+2, PushRequest(3, &p))
	if err := w.refused(origin+3, PushRequest(3, &late)); err.Code != Conflict {
		t.Errorf("%v", err)
	}
	p.Version = 2
	if got, err := ReadPush(w, p.Sink, p.Period); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
	p.Until = origin
	if err := w.refused(origin+4, PushRequest(3, &p)); err.Field != "until" {
		t.Errorf("%v", err)
	}
	w.must(origin+limit.Time(hour), checkOf("p", "k", 1)) // the sweep comes by
	if d := w.must(origin+limit.Time(hour)+1, PushRequest(3,
		&Push{Sink: p.Sink, Period: p.Period, Until: origin + limit.Time(day)})); d.Answer().Document.Version != 1 {
		t.Errorf("a position that has ended: %+v", d.Answer().Document)
	}
}

// The events of a page are those that a request through the log shows too.
func TestAPageComesThroughTheLog(t *testing.T) {
	w := told(t, 5)
	d := w.must(origin+10, EventsRequest(3, EventsQuery{From: 1, Most: 2, Namespace: "default"}))
	page, err := EventsOf(&d)
	if want, _ := ReadEvents(w, EventsQuery{From: 1, Most: 2}); err != nil || !reflect.DeepEqual(page, want) ||
		len(page.Events) != 2 || page.Next != 3 || !page.More {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err := ReadEvents(w, EventsQuery{Namespace: "other"}); err != nil || len(page.Events) != 0 || page.More {
		t.Errorf("of another namespace: %+v, %v", page, err)
	}
	for _, body := range [][]byte{nil, {2, 0, 0, 0, 0}, {1, 3, 0, 0, 0}} {
		if err := w.refused(origin+11, Request{Op: ReadEventPage, Namespace: "default", Body: body,
			Entries: []Entry{{Key: "k", Cost: 1}}}); err.Code != Invalid {
			t.Errorf("%x: %v", body, err)
		}
	}
}

// everyEvent has every field.
func everyEvent() []Event {
	return []Event{
		{Number: 300, At: origin, Kind: EventThreshold, Namespace: "default", Policy: "plan", Key: "ann", Shadow: true,
			Limit: "month", Threshold: percent(80),
			Units: 8000, Used: 8001, Quota: 10000, Start: origin, End: origin + limit.Time(hour),
			Sinks: []string{"billing", "ops"}},
		{At: origin, Kind: EventThreshold, Namespace: "n", Policy: "p", Key: "k", Limit: "l", Threshold: units(5),
			Units: 5, Used: 5, End: limit.Forever},
		{Number: 1, At: origin, Kind: EventSpike, Namespace: "default", Policy: "p", Key: "k", Start: origin,
			End: origin + 60e6, Denials: 500, Mean: 9, Sinks: []string{"ops"}, Why: "it answered 500"},
	}
}

// markedCounter has marks, with and without an end.
func markedCounter() *counter {
	c := &counter{key: "k", policy: inlinePolicy, limits: countedLimits{{name: "a", limit: windowLimit, since: origin}}}
	for _, m := range []mark{{"a", 300, origin, origin + limit.Time(hour)}, {"life", 5, 0, limit.Forever}} {
		c.marks = m.append(c.marks)
	}
	return c
}

// These bytes are stored in users' logs and snapshots, and pages are sent between nodes. An event's id never changes.
func TestGoldenBytesOfEvents(t *testing.T) {
	var b strings.Builder
	for _, e := range everyEvent() {
		value := e.encode()
		fmt.Fprintf(&b, "event %s\n  %x\n", e.ID("ledger"), value)
		if back, err := decodeEvent(value); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%v: it came back as %+v", err, back)
		}
		for n := range value {
			if _, err := decodeEvent(value[:n]); err == nil {
				t.Errorf("%d of %d bytes are an event", n, len(value))
			}
		}
	}
	head := outboxHead{1, 400, 300, 5000, 7, 2000, 9, 3}
	page := EventsPage{Events: everyEvent(), Next: 301, More: true, Waiting: 2, WaitingBytes: 300, Dead: 4, Lost: 5}
	push := Push{Version: 3, Position: []byte("here")}
	fmt.Fprintf(&b, "outbox\n  %x\npage\n  %x\nchanged\n  %x\npush %q\n  %x\n", encodeRecord(head.code),
		resultMessage(&Result{Decision: Decision{System: &SystemAnswer{Events: &page}}}),
		resultMessage(
			&Result{Decision: Decision{System: &SystemAnswer{Changed: &EventsChanged{Done: 300, More: true}}}}),
		pushKey("stripe", "2026-01"), push.encode())
	fmt.Fprintf(&b, "marked\n  %x\nmarked and metered\n", markedCounter().encode(origin+6).Value)
	both := manyMeters()
	both.marks = markedCounter().marks
	fmt.Fprintf(&b, "  %x\nkeys %q %q %q %q\n", both.encode(origin+6).Value, eventKey(EventsWaiting, 300),
		eventKey(EventsDead, 1025), eventKey(EventsPast, 3), appendKeyOf(nil, cooldownRecord, "default", "p", "k"))
	places := []EventPlace{{300, origin}}
	for _, r := range []Request{EventsRequest(3, EventsQuery{List: EventsDead, From: 300, Namespace: "n", Most: 9}),
		AcknowledgeRequest(3, "ops", places), GiveUpRequest(3, "ops", places, "it answered 500"),
		ReplayRequest(3, "", nil), PushRequest(3, &push),
		SpikeRequest(&Spike{Namespace: "n", Policy: "p", Key: "k", At: origin, Denials: 500, Mean: 9})} {
		fmt.Fprintf(&b, "request %d\n  %x\n", r.Op, requestMessage(&r))
	}
	golden(t, "testdata/events.golden", b.String())

	if back, err := outboxHeadOf(Record{Value: encodeRecord(head.code)}, true); err != nil || back != head {
		t.Errorf("%v: the head came back as %+v", err, back)
	}
	if back, err := EventsOf(resultBack(t, &SystemAnswer{Events: &page})); err != nil ||
		!reflect.DeepEqual(back, page) {
		t.Errorf("%v: the page came back as %+v", err, back)
	}
	for _, c := range []*counter{markedCounter(), both} {
		value := c.encode(origin + 6).Value
		back := counter{policy: inlinePolicy}
		if err := back.decode(value, nil); err != nil || !reflect.DeepEqual(back.marks, c.marks) ||
			!reflect.DeepEqual(back.meters, c.meters) {
			t.Errorf("%v: it came back as %+v", err, back)
		}
		for n := range value[:len(value)-len(c.marks)+1] { // the marks are the rest
			if err := (&counter{policy: inlinePolicy}).decode(value[:n], nil); err == nil {
				t.Errorf("%d of %d bytes are a counter", n, len(value))
			}
		}
	}
}

// No bytes of a record or a body make the readers of events panic, and what they read is written as it was.
func FuzzEvents(f *testing.F) {
	for _, e := range everyEvent() {
		f.Add(e.encode())
	}
	head := outboxHead{1, 400, 300, 5000, 7, 2000, 9, 3}
	f.Add(encodeRecord(head.code))
	f.Add(markedCounter().encode(origin).Value)
	acknowledge, spike := AcknowledgeRequest(3, "ops", []EventPlace{{300, origin}}),
		SpikeRequest(&Spike{Policy: "p", Key: "k", At: origin})
	f.Add([]byte(requestMessage(&acknowledge)))
	f.Add([]byte(requestMessage(&spike)))
	f.Fuzz(func(t *testing.T, value []byte) {
		if e, err := decodeEvent(value); err == nil {
			if back, err := decodeEvent(e.encode()); err != nil || !reflect.DeepEqual(back, e) {
				t.Fatalf("%+v came back as %+v, %v", e, back, err)
			}
		}
		if h, err := outboxHeadOf(Record{Value: value}, true); err == nil {
			if back, err := outboxHeadOf(Record{Value: encodeRecord(h.code)}, true); err != nil || back != h {
				t.Fatalf("%+v came back as %+v, %v", h, back, err)
			}
		}
		var r Request
		c := MessageReader(string(value))
		if c.Request(&r); c.Whole() {
			told(t, 0).batch(origin+1, r)
		}
	})
}
