package shard

import (
	"fmt"

	"github.com/stint-io/stint/policy"
)

// batch is the state shared by the requests of one Evaluate: the view with the effects of the earlier requests on top
// of it. Every counter and session that a request uses is decoded once.
type batch struct {
	view      View
	policies  *policy.Set
	at        Stamp
	all       []*counter           // used by this batch
	counters  map[string]*counter  // the same by key, once there are too many for a linear search
	order     []*counter           // those with effects
	written   map[string]Put       // idempotency records and documents of this batch, by record key
	keys      []string             // the keys of written, in order
	sessions  map[Session]*session // used by this batch
	met       []*session           // the same, in order
	opened    uint32               // sessions
	index     uint32               // of the last counted request
	room      Room                 // as the view has it
	slotted   bool                 // likewise: there may be a record of a slot
	shares    *batchShares         // nil: no request has asked for them
	mark      *restoreMark         // see restored
	markErr   error
	markRead  bool
	revisions revisions
	changes   []auditChange // in the audit log, by place; nil until read
	bytes     int           // of the effects so far, approximately
	scratch   []byte        // for the key of a lookup, until the next one

	slabs struct { // memory for frequent values
		statuses slab[LimitStatus]
		limits   slab[counted]
		counters slab[counter]
		tallies  slab[Tallied]
	}
	initial struct { // memory for the slices above, enough for most batches of one request
		scratch [96]byte
		all     [4]*counter
		met     [1]*session
	}
}

// scanned is how many counters are searched linearly before there is a map of them: only large batches touch more keys.
const scanned = 8

// useInitial makes the slices of an empty batch use its initial memory.
func (b *batch) useInitial() {
	b.scratch, b.all, b.met = b.initial.scratch[:0], b.initial.all[:0], b.initial.met[:0]
}

// newDecision returns the initial decision of a request: allowed so far.
func (b *batch) newDecision() Decision {
	return Decision{Allowed: true, DecidedAt: b.at.Now, Position: b.at.Position}
}

// answerOf returns the answer to an operation that decides nothing about a key.
func (b *batch) answerOf(s SystemAnswer) Result {
	d := b.newDecision()
	d.System = &s
	return Result{Decision: d}
}

// number gives a counted request its number in the batch.
func (b *batch) number(d *Decision) {
	b.index++
	d.Index = b.index
}

// lookup finds a live record of a kind that is written as a whole, after the earlier requests of the batch. One that
// these have removed is not found.
func (b *batch) lookup(key string) (Record, bool) {
	if p, found := b.written[key]; found {
		return p.Record, p.Value != nil
	}
	record, found := b.view.Lookup(key)
	return record, found && record.ForgetAt > b.at.Now
}

// write makes p the record of its key. It replaces an earlier write of the batch.
func (b *batch) write(p Put) {
	if b.written == nil {
		b.written = make(map[string]Put)
	}
	if before, again := b.written[p.Key]; again {
		b.bytes -= len(before.Key) + len(before.Value) + 20
	} else {
		b.keys = append(b.keys, p.Key)
	}
	b.written[p.Key] = p
	b.bytes += len(p.Key) + len(p.Value) + 20
}

// counter returns the working copy of one key's counter, after the earlier requests of the batch. On first touch it is
// decoded from the view. Decoded names and zones are shared with limits. The error concerns only this key.
func (b *batch) counter(r *Request, i int, p *policy.Policy, limits []policy.Limit) (*counter, *Error) {
	entry := &r.Entries[i]
	b.scratch = appendCounterKey(b.scratch[:0], r.Namespace, policyPart(entry), entry.Key)
	if err := b.slotElsewhere(slotBefore(b.scratch, len(entry.Key))); err != nil { //mutant:frozen-slot-counts
		return nil, err
	}
	if c := b.metCounter(b.scratch); c != nil {
		return c, nil
	}
	c := &b.slabs.counters.take(1)[0]
	c.key, c.size, c.policy = string(b.scratch), len(b.scratch)+64*len(limits), p
	c.limits = b.slabs.limits.take(len(limits))[:0]
	var unread *Error

	if c.mark, unread = b.restored(); unread != nil {
		return nil, unread
	}
	if record, ok := b.view.Lookup(c.key); ok && record.ForgetAt > b.at.Now {
		c.known = true
		c.size += len(record.Value)
		if err := c.decode(record.Value, limits); err != nil {
			return nil, unreadable(fmt.Sprintf("entries[%d].key", i),
				fmt.Sprintf("what policy %q has counted of it", entry.Policy), err)
		}
	}
	b.meetCounter(c)
	return c, nil
}

// metCounter returns the working copy of a counter that the batch has used, or nil.
func (b *batch) metCounter(key []byte) *counter {
	if b.counters != nil {
		return b.counters[string(key)]
	}
	for _, c := range b.all {
		if c.key == string(key) {
			return c
		}
	}
	return nil
}

func (b *batch) meetCounter(c *counter) {
	if b.counters != nil {
		b.counters[c.key] = c
		return
	}
	if b.all = append(b.all, c); len(b.all) > scanned {
		b.counters = make(map[string]*counter, 8*scanned)
		for _, c := range b.all {
			b.counters[c.key] = c
		}
	}
}

// touch adds a counter to the list of effects, once. The counter must not be a copy: both would be written.
func (b *batch) touch(c *counter) {
	if c.crossed != nil {
		b.fire(c) //mutant:crossing-without-event
	}
	if !c.listed {
		c.listed = true
		if b.shares != nil && !c.known { //mutant:batch-passes-the-cap
			b.shares.add(c.key)
		}
		b.order = append(b.order, c)
		b.bytes += c.size
	}
}

// puts encodes the effects, each key once, in the order of first touch.
func (b *batch) puts() []Put {
	puts := make([]Put, 0, len(b.order)+len(b.keys)+len(b.met))
	var all []byte // for all counters' records, one after the other
	for i, c := range b.order {
		if left := len(b.order) - i; cap(all)-len(all) < recordRoom {
			all = make([]byte, 0, recordRoom*min(left, slabMost))
		}
		var p Put
		switch p, all = c.appendTo(all, b.at.Now); {
		case !c.empty():
			puts = append(puts, p)
		case c.known:
			puts = append(puts, Put{Key: c.key})
		}
	}
	for _, key := range b.keys {
		puts = append(puts, b.written[key])
	}
	for _, s := range b.met {
		if s.changed() {
			puts = append(puts, s.put(b.at.Now))
		}
	}
	return puts
}
