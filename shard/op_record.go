package shard

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// The shards' records of an operation on several of them (X4). A shard other than home keeps a leg: its charge. Home keeps
// a ruling: the outcome of the whole. Both begin with the instant at which they need action, so that the index of State
// need not decode the rest.

// The formats, each in the first byte of its record.
const (
	legFormat    = 1
	rulingFormat = 1
)

// dueBytes is the size of the format and the instant.
const dueBytes = 1 + 8

// legState is the progress of a leg. Its numbers are stored in records: append new ones, never renumber.
type legState uint8

const (
	legOpen      legState = 1 // charged; home's ruling is not known here
	legHeld      legState = 2 // home has committed; a hold until home says more
	legCommitted legState = 3 // ended: the units are spent
	legReleased  legState = 4 // ended: the units were given back, or nothing was ever charged (a tombstone)
	legSettled   legState = 5 // ended: settled, or expired
)

func (s legState) ended() bool { return s >= legCommitted }

// leg is a shard's charge for an operation whose home is elsewhere.
type leg struct {
	due         limit.Time // when to ask home; 0: never
	state       legState
	drawn       bool
	home        slot.ID
	fingerprint uint64
	keep        limit.Span // how long it is remembered after its end
	answer      Decision   // to Charge; its place names the charge
	entries     []Entry    // each with what was taken
}

// place identifies one charge of a shard among all that it ever made.
type place struct {
	Position
	index uint32
}

func placeOf(d *Decision) place { return place{d.Position, d.Index} }

// ruling is home's record of an operation.
type ruling struct {
	due         limit.Time // when to tell the legs, or when a hold expires; 0: never
	state       OperationState
	drawn       bool
	fingerprint uint64
	keep        limit.Span // how long it is remembered once nothing remains to be done
	until       limit.Time // it is remembered longer than this: no Conclude is accepted later
	answer      Decision   // of home's own entries
	entries     []Entry    // home's own, each with what was taken
	expires     limit.Time // OperationHeld
	legs        []ruled
	settled     *settled // OperationSettled by a request, not by expiry
}

// ruled is a leg as home knows it.
type ruled struct {
	Leg
	pending bool     // it has not yet acknowledged the ruling
	actual  []uint64 // of a settlement that has actual costs
}

// settled is how an operation was settled.
type settled struct {
	fingerprint uint64
	settlement  Settlement // without Target and Actual, which is in the legs
	answer      Decision   // home's
}

// dueOf returns when a leg or a ruling needs action; 0: never.
func dueOf(value []byte) limit.Time {
	if len(value) < dueBytes {
		return 0
	}
	return limit.Time(binary.LittleEndian.Uint64(value[1:]))
}

func appendDue(b []byte, format byte, due limit.Time) []byte {
	return binary.LittleEndian.AppendUint64(append(b, format), uint64(due))
}

func (l *leg) encode() []byte {
	b := appendDue(make([]byte, 0, 256), legFormat, l.due)
	b = append(b, byte(l.state), bit(l.drawn))
	b = binary.AppendUvarint(b, uint64(l.home))
	b = binary.LittleEndian.AppendUint64(b, l.fingerprint)
	b = binary.AppendVarint(b, int64(l.keep))
	b = appendPartDecision(b, &l.answer)
	return appendPartEntries(b, l.entries)
}

func decodeLeg(value []byte) (*leg, error) {
	r := reader{rest: value}
	format := r.byte()
	l := &leg{due: limit.Time(r.fixed64()), state: legState(r.byte()), drawn: r.byte() != 0, home: r.slot()}
	l.fingerprint, l.keep = r.fixed64(), limit.Span(r.varint())
	l.answer, l.entries = r.partDecision(), r.partEntries()
	if r.failed || len(r.rest) != 0 || format != legFormat || l.state < legOpen || l.state > legSettled {
		return nil, fmt.Errorf("shard: record of an operation's leg is malformed or of an unknown format (%d)", format)
	}
	return l, nil
}

func (u *ruling) encode() []byte {
	b := appendDue(make([]byte, 0, 512), rulingFormat, u.due)
	b = append(b, byte(u.state), bit(u.drawn)|bit(u.settled != nil)<<1)
	b = binary.LittleEndian.AppendUint64(b, u.fingerprint)
	b = binary.AppendVarint(b, int64(u.keep))
	b = binary.AppendVarint(b, int64(u.until))
	b = appendPartDecision(b, &u.answer)
	b = appendPartEntries(b, u.entries)
	b = binary.AppendVarint(b, int64(u.expires))
	b = binary.AppendUvarint(b, uint64(len(u.legs)))
	for i := range u.legs {
		b = appendRuled(b, &u.legs[i])
	}
	if s := u.settled; s != nil {
		b = binary.LittleEndian.AppendUint64(b, s.fingerprint)
		b = append(b, byte(s.settlement.Action), byte(s.settlement.Overage))
		b = appendPartDecision(b, &s.answer)
	}
	return b
}

func decodeRuling(value []byte) (*ruling, error) {
	r := reader{rest: value}
	format := r.byte()
	u := &ruling{due: limit.Time(r.fixed64()), state: OperationState(r.byte())}
	flags := r.byte()
	u.drawn, u.fingerprint, u.keep, u.until = flags&1 != 0, r.fixed64(), limit.Span(r.varint()), limit.Time(r.varint())
	u.answer, u.entries, u.expires = r.partDecision(), r.partEntries(), limit.Time(r.varint())
	for range r.count() {
		u.legs = append(u.legs, r.ruled())
	}
	if flags&2 != 0 {
		u.settled = &settled{fingerprint: r.fixed64()}
		u.settled.settlement.Action, u.settled.settlement.Overage = Action(r.byte()), Overage(r.byte())
		u.settled.answer = r.partDecision()
	}
	if r.failed || len(r.rest) != 0 || format != rulingFormat || u.state < OperationAborted || u.state > OperationSettled {
		return nil, fmt.Errorf("shard: record of an operation's ruling is malformed or of an unknown format (%d)", format)
	}
	return u, nil
}

func appendRuled(b []byte, l *ruled) []byte {
	b = binary.AppendUvarint(b, uint64(l.Slot))
	b = append(b, bit(l.Allowed)|bit(l.pending)<<1|bit(l.actual != nil)<<2)
	b = appendPartDecision(b, &l.Decision)
	if l.actual != nil {
		b = binary.AppendUvarint(b, uint64(len(l.actual)))
		for _, units := range l.actual {
			b = binary.AppendUvarint(b, units)
		}
	}
	return b
}

func (r *reader) ruled() (l ruled) {
	l.Slot = r.slot()
	flags := r.byte()
	l.Allowed, l.pending = flags&1 != 0, flags&2 != 0
	l.Decision = r.partDecision()
	if flags&4 != 0 {
		l.actual = make([]uint64, r.count())
		for i := range l.actual {
			l.actual[i] = r.uvarint()
		}
	}
	return l
}

// count reads the number of values that follow. Each has at least one byte, so it is never more than the bytes left.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.failed = true
		return 0
	}
	return n
}

func appendPartEntries(b []byte, entries []Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		b = appendHandleEntry(b, &entries[i])
	}
	return b
}

func (r *reader) partEntries() (entries []Entry) {
	for range r.count() {
		entries = append(entries, r.handleEntry())
		if r.failed {
			return nil
		}
	}
	return entries
}

// appendPartDecision writes one shard's answer for its part. Statuses name their policy and key, because the record may be
// read without its request.
func appendPartDecision(b []byte, d *Decision) []byte {
	b = append(b, bit(d.Allowed)|bit(d.ShadowDenied)<<1)
	b = binary.AppendVarint(b, int64(d.RetryAfter))
	b = binary.AppendVarint(b, int64(d.DecidedAt))
	b = binary.AppendUvarint(b, uint64(d.Position.Shard))
	b = binary.AppendUvarint(b, d.Position.Epoch)
	b = binary.AppendUvarint(b, d.Position.Seq)
	b = binary.AppendUvarint(b, uint64(d.Index))
	b = binary.AppendVarint(b, int64(d.HoldExpires))
	named := d.entriesNamed()
	b = binary.AppendUvarint(b, uint64(len(named)))
	for i := range named {
		b = appendString(appendString(b, named[i].Policy), named[i].Key)
	}
	b = binary.AppendUvarint(b, uint64(len(d.Limits)))
	for i := range d.Limits {
		s := &d.Limits[i]
		entry := slices.IndexFunc(named, func(e Entry) bool { return e.Policy == s.Policy && e.Key == s.Key })
		b = appendStatus(b, entry, s)
	}
	return b
}

// entriesNamed lists the policies and keys of the statuses, each once.
func (d *Decision) entriesNamed() (named []Entry) {
	for i := range d.Limits {
		one := Entry{Policy: d.Limits[i].Policy, Key: d.Limits[i].Key}
		if !slices.ContainsFunc(named, func(e Entry) bool { return e.Policy == one.Policy && e.Key == one.Key }) {
			named = append(named, one)
		}
	}
	return named
}

func (r *reader) partDecision() (d Decision) {
	flags := r.byte()
	d.Allowed, d.ShadowDenied = flags&1 != 0, flags&2 != 0
	d.RetryAfter, d.DecidedAt = limit.Span(r.varint()), limit.Time(r.varint())
	d.Position = Position{ID(r.uvarint()), r.uvarint(), r.uvarint()}
	d.Index, d.HoldExpires = uint32(r.uvarint()), limit.Time(r.varint())
	var named Request
	for range r.count() {
		named.Entries = append(named.Entries, Entry{Policy: r.string(), Key: r.string()})
	}
	for range r.count() {
		s, ok := r.status(&named)
		if !ok {
			r.failed = true
			return Decision{}
		}
		d.Limits = append(d.Limits, s)
	}
	return d
}
