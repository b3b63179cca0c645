package api

import (
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// slotsMet is which slots a listing has met that reads one shard after the other, each page by page.
type slotsMet struct {
	met  slot.Set // each was owned by a shard for as long as this was read
	here slot.Set // owned by this shard since its first page
}

// read notes the slots of a page: the first of its shard, or the last, or both.
func (m *slotsMet) read(slots *slot.Set, first, last bool) {
	if first {
		m.here = *slots
	}
	m.here.And(slots)
	if last {
		m.met.Or(&m.here)
		m.here = slot.Set{}
	}
}

// errSlotsMoved is the error of a listing that has not met each slot on the shard that owned it.
var errSlotsMoved = &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
	Message: "slots are moving to other shards, and some may be missing from the list: list again from its beginning"}
