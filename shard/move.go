package shard

import (
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// Move is the move of one slot from a shard to another. Its steps are requests with Op MoveSlot, each about the shard
// that it is evaluated on (MoveTerms.Step), and each idempotent: any node may repeat any of them at any time.
//
// Exactly one shard owns a slot: the one with SlotOwned of the highest generation in its log. The table of the cluster
// only follows.
type Move struct {
	Slot     slot.ID
	From, To ID
	// Generation is the generation of the slot once To owns it; each owner of a slot has a higher one than the owner
	// before. A shard of the founding owns its slots in generation 0.
	Generation uint64
}

// MoveStep is a step of a Move. Its numbers are sent between nodes: append new ones, never renumber.
type MoveStep uint8

// The steps, in their order. A step changes nothing and is an error if its condition does not hold.
const (
	// MoveLook is for either shard: the slot's status, without a change.
	MoveLook MoveStep = 1
	// MovePrepare is for From, which owns the slot: from now on, it answers a reservation that has keys of this slot
	// and of others with Spread.
	MovePrepare MoveStep = 2
	// MoveBegin is for To, which does not own the slot, and on which any earlier move of it has ended: it will
	// receive pages.
	MoveBegin MoveStep = 3
	// MoveFreeze is for From: from now on, it answers every request for a key of the slot with Moved.
	MoveFreeze MoveStep = 4
	// MoveRead is for From after MoveFreeze: a page of the slot's records, from MoveTerms.Place on. It changes nothing.
	MoveRead MoveStep = 5
	// MovePut is for To: it stores page number MoveTerms.Page, which begins at MoveTerms.Place, once.
	MovePut MoveStep = 6
	// MoveTake is for To after the last page: it owns the slot.
	MoveTake MoveStep = 7
	// MoveDrop is for From, when To has been seen to own the slot: it removes a part of the slot's records, and is to
	// be repeated until the status is SlotMoved.
	MoveDrop MoveStep = 8
	// MoveAbort is for To before MoveTake: from now on it will never own the slot in this generation. It removes the
	// pages, in parts, and is to be repeated until the status is Ended.
	MoveAbort MoveStep = 9
	// MoveThaw is for From after MovePrepare or MoveFreeze, when To has been seen to have aborted: it owns the slot
	// again, in the generation after the move's.
	MoveThaw MoveStep = 10
)

// MoveTerms are the parameters of a MoveSlot.
type MoveTerms struct {
	Move
	Step MoveStep
	// Frozen is the status of From after MoveFreeze: for MovePut the one with which it read the page, and for MoveTake
	// any. For MoveBegin it is any earlier one, and only its Restored matters.
	Frozen SlotStatus
	Place  uint64   // MoveRead, MovePut: where the page begins (MovePage.Next of the page before; 0 for the first)
	Page   uint64   // MovePut: its number, from 0
	Put    MovePage // MovePut
}

// MovePage is a part of the records of a slot.
type MovePage struct {
	Records []Put
	// Time is shard time of From when it read the page: records that had ended by then may be missing, so To must not
	// take the slot before it. It may store the page: From reads it again at a later time if To refuses it, so a To with
	// a time that is always behind would never have one.
	Time limit.Time
	Next uint64 // where the next page begins; 0 after the last one
	Last bool
}

// MoveAnswer is the answer to a MoveSlot.
type MoveAnswer struct {
	Status SlotStatus // of the slot, after the step
	Page   MovePage   // MoveRead
	// Waits is what a step waits for, in words, if it could not be done yet and nothing was changed; "" if it was done.
	Waits string
}

// MoveRequest returns a request for a step of a move to one of its two shards.
func MoveRequest(at ID, terms MoveTerms) Request {
	return Request{Op: MoveSlot, Shard: at, System: &SystemTerms{Move: &terms}}
}

func (t *MoveTerms) code(c *MessageCodec) {
	codec.Uint(&c.Codec, &t.Slot, slot.Count-1)
	codec.Uint(&c.Codec, &t.From, math.MaxUint32)
	codec.Uint(&c.Codec, &t.To, math.MaxUint32)
	c.Uint64(&t.Generation)
	codec.Byte(&c.Codec, &t.Step)
	t.Frozen.code(c)
	c.Uint64(&t.Place, &t.Page)
	t.Put.code(c)
}

func (p *MovePage) code(c *MessageCodec) {
	codec.List(&c.Codec, &p.Records, math.MaxInt, func(r *Put) { r.code(c) })
	codec.Int(&c.Codec, &p.Time)
	c.Uint64(&p.Next)
	c.Flags(&p.Last)
}

func (a *MoveAnswer) code(c *MessageCodec) {
	a.Status.code(c)
	a.Page.code(c)
	c.Text(&a.Waits)
}
