package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// The outbox has the events that sinks have not acknowledged, in the order in which they were written, each with its
// waiting sinks. It is bounded: above outboxMost bytes the oldest become dead letters. Those are a ring, and so are the
// newest past events; a dead letter that is overwritten is lost, and counted. The decision that fired an event is
// counted regardless of the event's fate.
//
// All of these are ordinary records: replicas agree on them, and snapshots, sums and backups contain them.

// The bounds of the lists.
const (
	outboxMost = 16 << 20 // bytes of waiting events
	deadKept   = 1024     // dead letters
	pastKept   = 1024     // past events
	// holesMost bounds how many numbers one request skips to find the oldest waiting event.
	holesMost = 4096
)

// outboxHead is the record of the outbox's figures.
type outboxHead struct {
	first, next uint64 // waiting events are in [first, next)
	waiting     uint64
	bytes       uint64 // of them: keys and values
	dead        uint64 // dead letters that are kept
	died        uint64 // dead letters that there ever were: the number of the next one
	past        uint64 // past events that there ever were
	lost        uint64 // events that were dropped before all of their sinks had them, ever
}

func (h *outboxHead) code(c *MessageCodec) {
	c.Uint64(&h.first, &h.next, &h.waiting, &h.bytes, &h.dead, &h.died, &h.past, &h.lost)
	if h.first > h.next || h.waiting > h.next-h.first || h.dead > deadKept {
		c.Fail()
	}
}

func outboxHeadOf(record Record, found bool) (outboxHead, error) {
	if !found {
		return outboxHead{}, nil
	}
	h, err := decodeRecord(record.Value, "the outbox", (*outboxHead).code)
	return *h, err
}

// span returns the numbers [first, end) that a list may have.
func (h *outboxHead) span(list EventList) (first, end uint64) {
	switch list {
	case EventsDead:
		return h.died - min(h.died, deadKept), h.died
	case EventsPast:
		return h.past - min(h.past, pastKept), h.past
	}
	return h.first, h.next
}

// eventKey returns the record key of an event. Dead letters and past events have places in a ring.
func eventKey(list EventList, number uint64) string {
	switch list {
	case EventsDead:
		return string(binary.BigEndian.AppendUint16([]byte{deadLetterRecord}, uint16(number%deadKept)))
	case EventsPast:
		return string(binary.BigEndian.AppendUint16([]byte{pastEventRecord}, uint16(number%pastKept)))
	}
	return string(binary.BigEndian.AppendUint64([]byte{eventRecord}, number))
}

// outbox is the outbox of the shard after the earlier requests of the batch. Callers that change it must call save.
type outbox struct {
	*batch
	head outboxHead
}

// openOutbox reads the outbox. If its head cannot be read it begins again: a broken outbox must not prevent decisions.
func openOutbox(b *batch) *outbox {
	h, _ := outboxHeadOf(b.lookup(string(outboxRecord)))
	return &outbox{b, h}
}

func (o *outbox) save() {
	o.write(Put{Key: string(outboxRecord), Record: Record{Value: encodeRecord(o.head.code), ForgetAt: limit.Forever}})
}

// fire writes the events of the thresholds that a counter has crossed.
func (b *batch) fire(c *counter) {
	namespace, name, key, _ := readKeyOf(c.key)
	o := openOutbox(b)
	for i := range c.crossed {
		e := &c.crossed[i]
		e.At, e.Namespace, e.Policy, e.Key = b.at.Now, namespace, name, key
		e.Shadow, e.Sinks = e.Shadow || c.policy.Shadow, c.policy.Notify
		o.add(e)
	}
	c.crossed = nil
	o.save()
}

// add writes a new event. On a brimful shard, where nothing may grow, it is lost.
func (o *outbox) add(e *Event) {
	switch {
	case o.room.brimful():
		o.head.lost += bitOf(len(e.Sinks) > 0)
	case len(e.Sinks) == 0:
		o.keepPast(e)
	default:
		o.enqueue(e)
	}
}

// enqueue puts an event at the end of the outbox, and makes room for it.
func (o *outbox) enqueue(e *Event) {
	e.Number = o.head.next
	o.head.next++
	o.putWaiting(e)
	for o.head.bytes > outboxMost && o.head.waiting > 1 { //mutant:full-outbox-grows
		oldest, found := o.oldest()
		if !found {
			return
		}
		o.remove(&oldest)
		o.bury(oldest, oldest.Sinks, whyFull)
	}
}

// putWaiting writes the record of a waiting event. drop undoes it.
func (o *outbox) putWaiting(e *Event) {
	p := Put{Key: eventKey(EventsWaiting, e.Number), Record: Record{Value: e.encode(), ForgetAt: limit.Forever}}
	o.write(p)
	o.head.waiting++
	o.head.bytes += uint64(len(p.Key) + len(p.Value))
}

// oldest returns the oldest waiting event, and skips numbers without one. It finds none if there are too many of those:
// the next request goes on.
func (o *outbox) oldest() (Event, bool) {
	for range holesMost {
		if o.head.first == o.head.next {
			break
		}
		key := eventKey(EventsWaiting, o.head.first)
		record, found := o.lookup(key)
		if found {
			e, err := decodeEvent(record.Value)
			if err == nil {
				return e, true
			}
			o.drop(key, record) // it cannot be acknowledged, and must not stop the events after it
			o.head.lost++
		}
		o.head.first++
	}
	return Event{}, false
}

// drop removes the record of a waiting event.
func (o *outbox) drop(key string, record Record) {
	o.write(Put{Key: key})
	o.head.waiting -= min(1, o.head.waiting)
	o.head.bytes -= min(o.head.bytes, uint64(len(key)+len(record.Value)))
}

// remove takes a waiting event out of the outbox.
func (o *outbox) remove(e *Event) {
	key := eventKey(EventsWaiting, e.Number)
	if record, found := o.lookup(key); found {
		o.drop(key, record)
	}
}

// at returns the event at a place.
func (o *outbox) at(list EventList, p EventPlace) (Event, bool) {
	record, found := o.lookup(eventKey(list, p.Number))
	if !found {
		return Event{}, false
	}
	e, err := decodeEvent(record.Value)
	return e, err == nil && e.Place() == p //mutant:any-history-acknowledged
}

// release removes a sink from a waiting event, which leaves the outbox with the last one. It reports whether the event
// waited for the sink.
func (o *outbox) release(p EventPlace, sink string) (Event, bool) {
	e, found := o.at(EventsWaiting, p)
	i := slices.Index(e.Sinks, sink)
	if !found || i < 0 {
		return e, false
	}
	e.Sinks = slices.Delete(slices.Clone(e.Sinks), i, i+1)
	o.remove(&e)
	if len(e.Sinks) == 0 { //mutant:event-leaves-with-one-sink
		past := e
		o.keepPast(&past)
		return e, true
	}
	o.putWaiting(&e)
	return e, true
}

// whyFull is the reason of a dead letter that no sink gave up.
const whyFull = "more events waited than a shard keeps"

// bury makes an event a dead letter of some sinks.
func (o *outbox) bury(e Event, sinks []string, why string) {
	e.Number, e.Sinks, e.Why = o.head.died, sinks, why //mutant:dead-letter-without-reason
	key := eventKey(EventsDead, e.Number)
	if _, found := o.lookup(key); found {
		o.head.lost++ //mutant:lost-event-uncounted
	} else {
		o.head.dead++
	}
	o.head.died++
	o.write(Put{Key: key, Record: Record{Value: e.encode(), ForgetAt: limit.Forever}})
}

// keepPast keeps an event without waiting sinks among the newest.
func (o *outbox) keepPast(e *Event) {
	e.Number, e.Sinks = o.head.past, nil
	o.head.past++
	o.write(Put{Key: eventKey(EventsPast, e.Number), Record: Record{Value: e.encode(), ForgetAt: limit.Forever}})
}

// revive moves a dead letter, or one sink's part of it, back into the outbox.
func (o *outbox) revive(p EventPlace, sink string) bool {
	e, found := o.at(EventsDead, p)
	if !found || sink != "" && !slices.Contains(e.Sinks, sink) {
		return false
	}
	again, key := e, eventKey(EventsDead, p.Number)
	again.Why = "" //mutant:replayed-letter-keeps-its-reason
	if sink != "" && len(e.Sinks) > 1 {
		again.Sinks = []string{sink}
		e.Sinks = slices.DeleteFunc(slices.Clone(e.Sinks), func(s string) bool { return s == sink })
		o.write(Put{Key: key, Record: Record{Value: e.encode(), ForgetAt: limit.Forever}})
	} else {
		o.head.dead -= min(1, o.head.dead)
		o.write(Put{Key: key})
	}
	o.enqueue(&again) //mutant:replay-loses-the-letter
	return true
}

// replay revives dead letters: those at places, or all.
func (o *outbox) replay(sink string, places []EventPlace) (c EventsChanged) {
	if len(places) == 0 {
		for n, end := o.head.span(EventsDead); n < end; n++ {
			record, found := o.lookup(eventKey(EventsDead, n))
			if e, err := decodeEvent(record.Value); found && err == nil && e.Number == n {
				places = append(places, e.Place())
			}
		}
	}
	for _, p := range places {
		if o.bytes > MaxEntryBytes/2 {
			c.More = true
			break
		}
		c.Done += uint32(bit(o.revive(p, sink)))
	}
	return c
}
