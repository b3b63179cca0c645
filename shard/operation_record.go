package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// The shards' records of an operation on several of them (X4). A shard other than home keeps a leg: its charge. Home
// keeps a ruling: the outcome of the whole. Both begin with the instant at which they need action, so that the index of
// State need not decode the rest.

// dueBytes is the size of the format and the instant.
const dueBytes = 1 + 8

// legState is the progress of a leg. Its numbers are stored in records: append new ones, never renumber.
type legState uint8

const (
	legOpen      legState = 1 // charged; home's ruling is not known here
	legHeld      legState = 2 // home has committed; a hold until home's next ruling
	legCommitted legState = 3 // ended: the units are spent
	legReleased  legState = 4 // ended: the units were given back, or nothing was ever charged (a tombstone)
	legSettled   legState = 5 // ended: settled, or expired
)

// ended reports whether the leg holds nothing any more. So a state that is appended must be of an ended leg.
func (s legState) ended() bool { return s >= legCommitted }

// leg is a shard's charge for an operation with its home elsewhere.
type leg struct {
	due         limit.Time // when to ask home; 0 means never
	state       legState
	drawn       bool // as in Operation, like home and fingerprint
	home        slot.ID
	fingerprint uint64
	keep        limit.Span // how long it is remembered after its end
	answer      Decision   // to Charge; its place names the charge
	entries     []Entry    // each with the taken units
}

// place identifies one charge of a shard among all that it ever made.
type place struct {
	Position
	index uint32
}

func placeOf(d *Decision) place { return place{d.Position, d.Index} }

// ruling is home's record of an operation.
type ruling struct {
	due         limit.Time // when to tell the legs, or when a hold expires; 0 means never
	state       OperationState
	drawn       bool // as in Operation, like fingerprint
	fingerprint uint64
	keep        limit.Span // how long it is remembered once nothing remains to be done
	until       limit.Time // it is remembered longer than this: no Conclude is accepted later
	answer      Decision   // of home's own entries
	entries     []Entry    // home's own, each with the taken units; none if aborted
	expires     limit.Time // OperationHeld: when the hold ends, by home's time
	legs        []ruled
	settled     *settled // OperationSettled by a request, not by expiry
}

// ruled is a leg as home knows it.
type ruled struct {
	Leg
	pending bool     // it has not yet acknowledged the ruling
	actual  []uint64 // its part of Settlement.Actual; nil if that has none
}

// settled is how an operation was settled.
type settled struct {
	fingerprint uint64     // of the request that settled
	settlement  Settlement // without Target and Actual, which is in the legs
	answer      Decision   // home's
}

// dueOf returns when a leg or a ruling needs action, or 0 for never.
func dueOf(value []byte) limit.Time {
	if len(value) < dueBytes {
		return 0
	}
	return limit.Time(binary.LittleEndian.Uint64(value[1:]))
}

func (l *leg) encode() []byte { return encodeRecord(l.code) }

func decodeLeg(value []byte) (*leg, error) {
	return decodeRecord(value, "an operation's leg", (*leg).code)
}

func (l *leg) code(c *MessageCodec) {
	c.due(&l.due)
	if codec.Byte(&c.Codec, &l.state); l.state < legOpen || l.state > legSettled {
		c.Fail()
	}
	c.Flags(&l.drawn)
	c.slot(&l.home)
	c.Fixed64(&l.fingerprint)
	codec.Int(&c.Codec, &l.keep)
	c.part(&l.answer)
	c.taken(&l.entries)
}

// due is what the records of operations begin with.
func (c *MessageCodec) due(due *limit.Time) {
	at := uint64(*due)
	if c.Fixed64(&at); c.Reading() {
		*due = limit.Time(at)
	}
}

func (u *ruling) encode() []byte { return encodeRecord(u.code) }

func decodeRuling(value []byte) (*ruling, error) {
	return decodeRecord(value, "an operation's ruling", (*ruling).code)
}

func (u *ruling) code(c *MessageCodec) {
	c.due(&u.due)
	if codec.Byte(&c.Codec, &u.state); u.state < OperationAborted || u.state > OperationSettled {
		c.Fail()
	}
	isSettled := u.settled != nil
	c.Flags(&u.drawn, &isSettled)
	c.Fixed64(&u.fingerprint)
	codec.Int(&c.Codec, &u.keep)
	codec.Int(&c.Codec, &u.until)
	c.part(&u.answer)
	c.taken(&u.entries)
	codec.Int(&c.Codec, &u.expires)
	codec.List(&c.Codec, &u.legs, MaxEntries, func(l *ruled) { l.code(c) })
	codec.Optional(&c.Codec, isSettled, &u.settled, func(s *settled) {
		c.Fixed64(&s.fingerprint)
		codec.Byte(&c.Codec, &s.settlement.Action)
		codec.Byte(&c.Codec, &s.settlement.Overage)
		c.part(&s.answer)
	})
}

func (l *ruled) code(c *MessageCodec) {
	c.slot(&l.Slot)
	hasActual := l.actual != nil
	c.Flags(&l.Allowed, &l.pending, &hasActual)
	c.part(&l.Decision)
	if hasActual {
		codec.List(&c.Codec, &l.actual, MaxEntries, func(n *uint64) { c.Uint64(n) })
	}
}

// taken are entries, each with what was taken.
func (c *MessageCodec) taken(entries *[]Entry) {
	codec.List(&c.Codec, entries, c.Left(), c.handleEntry)
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
