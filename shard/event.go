package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// EventKind is the kind of an event. Its numbers are stored in records: append new ones, never renumber.
type EventKind uint8

// The kinds.
const (
	EventThreshold EventKind = 1 // a limit's use has reached a threshold
	EventSpike     EventKind = 2 // a key is denied far more often than before
)

// Event is an event for the sinks of a policy. All instants are shard time.
type Event struct {
	// Number is the event's place in its list of the shard. It is not a part of the event's name.
	Number uint64
	At     limit.Time // when it was written; Number and At name one record of a shard, also after a restore
	Kind   EventKind

	Namespace, Policy, Key string
	Shadow                 bool // the limit or policy is in shadow: nothing is denied

	// EventThreshold
	Limit     string
	Threshold policy.Threshold
	Units     uint64 // the threshold in units
	Used      uint64 // after the decision
	Quota     uint64 // 0 if there is none
	// The window [Start, End) in which the threshold fires once; End is limit.Forever if it never ends. For a spike,
	// the minute in which it was seen.
	Start, End limit.Time

	// EventSpike
	Denials uint64 // in the minute of the spike
	Mean    uint64 // denials per minute in the nine minutes before

	// Sinks have yet to acknowledge the event; for a dead letter, they gave up; a past event has none.
	Sinks []string

	// Why is the reason of a dead letter, for display: the last status or error, at most WhyMost bytes; "" for other
	// events.
	Why string
}

// WhyMost bounds the reason of a dead letter, in bytes.
const WhyMost = 256

// ID names the event for ever, under any owner of the shard: a threshold that fires again in its window, because a
// restore has lost the first time, has the same id. ledger is the cluster's, which a restore keeps (it is a document of
// the system shard, so a shard does not know it). The function never changes.
func (e *Event) ID(ledger string) string {
	var b []byte
	for _, part := range []string{ledger, e.Namespace, e.Policy, e.Key, e.Limit} {
		b = appendString(b, part)
	}
	//mutant:event-id-changes-with-use
	b = appendNumbers(append(b, byte(e.Kind)), e.Units, uint64(e.Start), uint64(e.End))
	sum := sha256.Sum256(b)
	return "evt_" + hex.EncodeToString(sum[:16])
}

// encode writes an event.
func (e *Event) encode() []byte {
	c := MessageWriter(nil)
	e.code(&c)
	return c.Written()
}

var errMalformedEvent = errors.New("shard: the record of an event is malformed or of an unknown format")

func decodeEvent(value []byte) (e Event, err error) {
	c := MessageReader(string(value))
	if e.code(&c); !c.Whole() {
		return Event{}, errMalformedEvent
	}
	return e, nil
}

// code is an event with its format, which it has in answers, too.
func (e *Event) code(c *MessageCodec) {
	format := byte(recordFormat)
	codec.Byte(&c.Codec, &format)
	codec.Byte(&c.Codec, &e.Kind)
	c.Flags(&e.Shadow)
	c.Uint64(&e.Number)
	codec.Uint(&c.Codec, &e.At, math.MaxInt64)
	c.Text(&e.Namespace, &e.Policy, &e.Key, &e.Limit)
	codec.Uint(&c.Codec, &e.Threshold.Percent, math.MaxUint32)
	c.Uint64(&e.Threshold.Units, &e.Units, &e.Used, &e.Quota)
	codec.Uint(&c.Codec, &e.Start, math.MaxInt64)
	codec.Uint(&c.Codec, &e.End, math.MaxInt64)
	c.Uint64(&e.Denials, &e.Mean)
	codec.List(&c.Codec, &e.Sinks, math.MaxInt, func(name *string) { c.Text(name) })
	if c.Text(&e.Why); format != recordFormat || e.Kind < EventThreshold || e.Kind > EventSpike || e.End < e.Start {
		c.Fail()
	}
}

// EventList is one of the lists of events that a shard has. Its numbers are sent between nodes.
type EventList uint8

// The lists.
const (
	EventsWaiting EventList = 0 // the outbox: sinks have yet to acknowledge
	EventsDead    EventList = 1 // dead letters: sinks gave up, or the outbox was full
	EventsPast    EventList = 2 // the newest without a waiting sink: all have acknowledged, or there were none
)

// EventsQuery selects events of one list; "" is all.
type EventsQuery struct {
	List      EventList
	From      uint64 // the first number; the Next of the page before
	Namespace string
	Most      int // events; 0 means as many as fit into a page
}

// EventsPage is a part of a list, oldest first.
type EventsPage struct {
	Events []Event
	Next   uint64 // where the next page begins
	More   bool   // there may be events from Next on already

	Waiting      uint64 // events in the outbox
	WaitingBytes uint64 // of them
	Dead         uint64 // dead letters that are kept
	Lost         uint64 // events that were dropped before all of their sinks had them, ever
}

// The bounds of a page: what fits into a frame, and how much a reader examines.
const (
	eventsMost   = 512
	eventsBytes  = 256 << 10
	eventsLooked = 8192
)

// ReadEvents reads a page of a shard's events, without a commit, so it may be behind. It leaves out an event that this
// version cannot read, which stays in its place.
func ReadEvents(view Records, q EventsQuery) (EventsPage, error) { return eventsOf(view.Lookup, &q) }

func eventsOf(lookup func(key string) (Record, bool), q *EventsQuery) (EventsPage, error) {
	h, err := outboxHeadOf(lookup(string(outboxRecord)))
	if err != nil {
		return EventsPage{}, err
	}
	p := EventsPage{Next: q.From, Waiting: h.waiting, WaitingBytes: h.bytes, Dead: h.dead, Lost: h.lost}
	first, end := h.span(q.List)
	p.Next = max(p.Next, first)
	bytes, most := 0, eventsMost
	if q.Most > 0 {
		most = min(q.Most, most)
	}
	for looked := 0; p.Next < end && looked < eventsLooked; looked++ {
		record, found := lookup(eventKey(q.List, p.Next))
		if found {
			if bytes += len(record.Value); len(p.Events) > 0 && bytes > eventsBytes || len(p.Events) >= most {
				break
			}
			e, err := decodeEvent(record.Value)
			if err == nil && e.Number == p.Next && (q.Namespace == "" || q.Namespace == e.Namespace) {
				p.Events = append(p.Events, e)
			}
		}
		p.Next++
	}
	p.More = p.Next < end
	return p, nil
}

// EventPlace names the record of an event in its list.
type EventPlace struct {
	Number uint64
	At     limit.Time
}

// Place returns the event's place.
func (e *Event) Place() EventPlace { return EventPlace{e.Number, e.At} }

// EventVerb is what a ChangeEvents does. Its numbers are sent between nodes.
type EventVerb uint8

const (
	acknowledgeEvents EventVerb = 1
	giveUpEvents      EventVerb = 2
	replayEvents      EventVerb = 3
)

// EventsChange is what is to become of some events.
type EventsChange struct {
	Verb   EventVerb
	Sink   string       // to replay, "" means all sinks
	Places []EventPlace // at most placesMost; to replay, none means all
	Why    string       // of events that are given up
}

// placesMost bounds the events that one request names, so that its effects fit into an entry.
const placesMost = 512

// EventsRequest returns a request to one shard for a page of events: see EventsOf.
func EventsRequest(id ID, q EventsQuery) Request {
	return Request{Op: ReadEventPage, Shard: id, System: &SystemTerms{Events: &q}}
}

// AcknowledgeRequest returns a request by which a sink acknowledges events of the outbox, at most 512. Events that are
// not there, or do not wait for the sink, are left out. It may be sent twice.
func AcknowledgeRequest(id ID, sink string, events []EventPlace) Request {
	return changeRequest(id, EventsChange{Verb: acknowledgeEvents, Sink: sink, Places: events})
}

// GiveUpRequest returns a request by which events of the outbox, at most 512, become dead letters of a sink. why is
// kept with them, cut to WhyMost bytes.
func GiveUpRequest(id ID, sink string, events []EventPlace, why string) Request {
	why = strings.ToValidUTF8(why[:min(len(why), WhyMost)], "")
	return changeRequest(id, EventsChange{giveUpEvents, sink, events, why})
}

// ReplayRequest returns a request by which dead letters wait in the outbox again, for the sinks that gave up, or only
// for one. No events means all, as many as fit into an entry; EventsChanged.More reports whether there are more. With
// an Adjustment it is audited.
func ReplayRequest(id ID, sink string, events []EventPlace) Request {
	return changeRequest(id, EventsChange{Verb: replayEvents, Sink: sink, Places: events})
}

func changeRequest(id ID, change EventsChange) Request {
	return Request{Op: ChangeEvents, Shard: id, System: &SystemTerms{Change: &change}}
}

func (x *EventsChange) code(c *MessageCodec) {
	codec.Byte(&c.Codec, &x.Verb)
	c.Text(&x.Sink)
	codec.List(&c.Codec, &x.Places, placesMost, func(p *EventPlace) {
		c.Uint64(&p.Number)
		codec.Int(&c.Codec, &p.At)
	})
	c.Text(&x.Why)
}

func (q *EventsQuery) code(c *MessageCodec) {
	codec.Byte(&c.Codec, &q.List)
	c.Uint64(&q.From)
	codec.Uint(&c.Codec, &q.Most, math.MaxInt32)
	c.Text(&q.Namespace)
}

// EventsOf reads the page in the answer to an EventsRequest.
func EventsOf(d *Decision) (EventsPage, error) {
	if d.System == nil || d.System.Events == nil {
		return EventsPage{}, errMalformedEvent
	}
	return *d.System.Events, nil
}

func (p *EventsPage) code(c *MessageCodec) {
	c.Uint64(&p.Next)
	c.Flags(&p.More)
	c.Uint64(&p.Waiting, &p.WaitingBytes, &p.Dead, &p.Lost)
	codec.List(&c.Codec, &p.Events, math.MaxInt, func(e *Event) { e.code(c) })
}

// EventsChanged is the result of a request about events on one shard.
type EventsChanged struct {
	Done uint32 // events
	More bool   // ReplayRequest: not everything fitted into one entry
}

// EventsChangedOf reads the answer to an AcknowledgeRequest, a GiveUpRequest or a ReplayRequest.
func EventsChangedOf(d *Decision) (EventsChanged, error) {
	if d.System == nil || d.System.Changed == nil {
		return EventsChanged{}, errMalformedEvent
	}
	return *d.System.Changed, nil
}

func (x *EventsChanged) code(c *MessageCodec) {
	codec.Uint(&c.Codec, &x.Done, math.MaxUint32)
	c.Flags(&x.More)
}
