package shard

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
	"github.com/stint-io/stint/shard/table"
)

// SlotState is the state of a slot on a shard. Its numbers are stored in records: append new ones, never renumber.
type SlotState uint8

// The states.
const (
	SlotUnknown   SlotState = 0 // the shard has no record of the slot: the table says whether it owns it
	SlotOwned     SlotState = 1
	SlotPreparing SlotState = 2 // owned, and about to move to Other
	SlotFrozen    SlotState = 3 // Other has it, or will have
	SlotMoved     SlotState = 4 // Other has it, and its records are gone from here
	SlotImporting SlotState = 5 // from Other
	SlotAborted   SlotState = 6 // it was to come from Other
)

// SlotStatus is the record of a slot on a shard. The zero value means that there is none.
type SlotStatus struct {
	State SlotState
	// Generation is that of the Move under way or ended; of SlotOwned, the one in which the shard owns the slot.
	Generation uint64
	Other      ID // the other shard of that Move; of SlotOwned it means nothing
	// Time is shard time: of SlotFrozen the instant since which nothing of the slot has changed, which only an answer
	// knows; of SlotImporting the latest MovePage.Time, before which the slot cannot be taken.
	Time limit.Time
	// Pages is the number of pages of SlotImporting, and Place where the next one begins.
	Pages uint64
	Place uint64
	// Ended: the last page of SlotImporting is there, no page of SlotAborted is left, or MoveDrop of SlotFrozen has
	// begun.
	Ended bool
	// Pushes are the records of how far the shard has pushed bills: of SlotFrozen, when it froze the slot. In answers
	// they are there before that, too: of SlotPreparing, and of SlotImporting without a page.
	Pushes []Put
	// Revision is the version of the policies that the shard has adopted, and Restored identifies the restore from a
	// backup that it still has a mark of; 0 if none. Both are set in answers only.
	Revision uint64
	Restored uint64
}

func (s *SlotStatus) code(c *MessageCodec) {
	codec.Byte(&c.Codec, &s.State)
	c.Uint64(&s.Generation)
	codec.Uint(&c.Codec, &s.Other, math.MaxUint32)
	codec.Int(&c.Codec, &s.Time)
	c.Uint64(&s.Pages, &s.Place, &s.Revision, &s.Restored)
	c.Flags(&s.Ended)
	codec.List(&c.Codec, &s.Pushes, math.MaxInt, func(r *Put) { r.code(c) })
}

// slotKeys has the keys of the records of all slots, one after the other, so that a lookup makes none: once a slot has
// moved, each request looks for its own.
var slotKeys = func() string {
	var b []byte
	for at := range slot.ID(slot.Count) {
		b = appendSlot(append(b, slotRecord), at)
	}
	return string(b)
}()

func slotKey(at slot.ID) string {
	const bytes = 1 + slotBytes
	return slotKeys[bytes*int(at):][:bytes]
}

func (s SlotStatus) encode() []byte {
	s.Revision, s.Restored = 0, 0 // the shard's, not the slot's
	return encodeRecord(s.code)
}

var errMalformedSlot = errors.New("shard: the record of a slot is malformed or of an unknown format")

func decodeSlotStatus(value []byte) (SlotStatus, error) {
	s, err := decodeRecord(value, "a slot", (*SlotStatus).code)
	if err != nil || s.State < SlotOwned || s.State > SlotAborted {
		return SlotStatus{}, errMalformedSlot
	}
	return *s, nil
}

// readSlotStatus returns the record of a slot, or the zero value if there is none.
func readSlotStatus(records Records, at slot.ID) (SlotStatus, error) {
	record, found := records.Lookup(slotKey(at))
	if !found {
		return SlotStatus{}, nil
	}
	return decodeSlotStatus(record.Value)
}

// serves reports whether a shard with this record of a slot answers requests for its keys. Without a record it does if
// the table says so; then it also has all of the slot's records there are.
func (s *SlotStatus) serves() bool {
	return s.State == SlotUnknown || s.State == SlotOwned || s.State == SlotPreparing
}

// String names the state as it follows "is".
func (s SlotState) String() string {
	return [...]string{"not recorded", "owned", "preparing", "frozen", "moved", "importing",
		"aborted"}[min(s, SlotAborted)]
}

// slotElsewhere refuses a request for a key of a slot that this shard does not own now. Nothing was counted. It costs
// nothing as long as the shard has all slots and no record of any.
func (b *batch) slotElsewhere(at slot.ID) *Error {
	if !b.slotted && b.at.Slots == nil || b.slotted && plainlyOwned(b.view, at) {
		return nil
	}
	status, unread := b.statusOf(at)
	switch {
	case unread != nil:
		return unread
	case status.State == SlotUnknown && b.at.tableOwns(at):
	case status.State == SlotUnknown && ID(b.at.Slots[at]) == System:
		return &Error{Code: Unavailable, RetryAfter: 100e3, Message: fmt.Sprintf(
			"this node does not know yet which shard owns slot %d; nothing was counted, ask again", at)}
	case status.State == SlotUnknown:
		return moved(at, ID(b.at.Slots[at])) //mutant:key-of-another-shard
	case status.State == SlotImporting:
		return &Error{Code: Unavailable, RetryAfter: 10e3, Message: fmt.Sprintf(
			"slot %d is being moved here from shard %s; nothing was counted: ask again in a moment", at, status.Other)}
	case !status.serves():
		return moved(at, status.Other)
	}
	return nil
}

// plainlyOwned reports whether a slot has a record that says SlotOwned, as nearly all slots of a grown cluster have. It
// does not decode the rest: each request asks.
func plainlyOwned(records Records, at slot.ID) bool {
	r, found := records.Lookup(slotKey(at))
	return found && len(r.Value) > 1 && r.Value[0] == recordFormat && SlotState(r.Value[1]) == SlotOwned
}

func moved(at slot.ID, to ID) *Error {
	return &Error{Code: Moved, To: to, Slot: at,
		Message: fmt.Sprintf("slot %d is on shard %s; nothing was counted here", at, to)}
}

// statusOf returns the record of a slot, or the zero value if there is none. It looks in the view alone: a step of a
// move, which could change the record, shares its batch with no request.
func (b *batch) statusOf(at slot.ID) (SlotStatus, *Error) {
	if !b.slotted {
		return SlotStatus{}, nil
	}
	s, err := readSlotStatus(b.view, at)
	if err != nil {
		return s, unreadable("", fmt.Sprintf("whether the shard owns slot %d", at), err)
	}
	return s, nil
}

// slotsServed returns the slots that a shard owns now; nil: all. any: it may have the record of a slot.
func slotsServed(records Records, any bool, now *Stamp) *slot.Set {
	if !any && now.Slots == nil {
		return nil
	}
	served := new(slot.Set)
	for at := range slot.ID(slot.Count) {
		status, err := readSlotStatus(records, at)
		if err == nil && status.serves() && (status.State != SlotUnknown || now.tableOwns(at)) {
			served.Add(at)
		}
	}
	return served
}

// aboutToMove refuses a hold on keys of several slots if one of them is about to move: as long as the hold is open, the
// slot could not.
func (e *evaluation) aboutToMove(r *Request) *Error {
	if !e.slotted || !r.spans() {
		return nil
	}
	for i := range r.Entries {
		at := slot.Of(r.Namespace, r.Entries[i].Key)
		status, err := e.statusOf(at)
		if err != nil {
			return err
		}
		if status.State == SlotPreparing {
			return &Error{Code: Spread, Slot: at, Message: fmt.Sprintf(
				"slot %d is about to move; nothing was counted: reserve in the slots of the keys separately, "+
					"as an operation", at)}
		}
	}
	return nil
}

// shownSlots says which of a shard's records appear in listings: each slot is listed by one shard.
type shownSlots struct {
	records Records
	any     bool // there may be a record of a slot
	part    int  // of the last answer; -1: none
	status  SlotStatus
}

func showing(records Records, any bool) *shownSlots {
	return &shownSlots{records: records, any: any, part: -1}
}

// has reports whether a record with the key is shown. One that belongs to no slot always is.
func (s *shownSlots) has(key string) bool {
	if !s.any {
		return true
	}
	if part := (keyLayout{}).Part(key); part != s.part {
		s.part, s.status = part, SlotStatus{}
		if part < slot.Count {
			status, err := readSlotStatus(s.records, slot.ID(part))
			if s.status = status; err != nil {
				s.status.State = SlotFrozen // it answers no request either
			}
		}
	}
	return s.status.serves()
}

// slotScan yields the records of a slot, from a place of a scan on, also those that have ended. A record that a flipped
// bit has made unreadable has no key.
func slotScan(records Records, at slot.ID, from uint64) iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		for key, r := range records.Scan(max(from, table.PartPlace(int(at)))) {
			if len(key) > 0 && (keyLayout{}).Part(string(key)) != int(at) || !yield(key, r) {
				return
			}
		}
	}
}
