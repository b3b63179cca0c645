package actor

import (
	"iter"

	"github.com/stint-io/stint/shard"
)

// overlay holds the effects that are proposed and not yet installed, on top of the committed state. The sequencer owns
// it. A value is removed only when the last entry that wrote it is installed (X9).
type overlay struct {
	records map[string]pending
	byEntry [][]string // keys written by each entry in flight, oldest first
	bytes   int        // of the keys and values in records
	slotted bool       // records has, or had, one of a slot
}

type pending struct {
	shard.Record
	seq uint64 // of the last entry that wrote it
}

func newOverlay() overlay { return overlay{records: make(map[string]pending)} }

// write adds an entry's effects, replacing older values.
func (o *overlay) write(seq uint64, puts []shard.Put) {
	keys := make([]string, len(puts))
	for i := range puts {
		key := puts[i].Key
		keys[i] = key
		o.slotted = o.slotted || shard.IsSlotRecord(key)
		o.drop(key)
		o.records[key] = pending{Record: puts[i].Record, seq: seq}
		o.bytes += len(key) + len(puts[i].Value)
	}
	o.byEntry = append(o.byEntry, keys)
}

// installed removes the values that the oldest entry in flight wrote and no newer entry wrote again.
func (o *overlay) installed(seq uint64) {
	for _, key := range o.byEntry[0] {
		if o.records[key].seq == seq { //mutant:overlay-dropped-early
			o.drop(key)
		}
	}
	o.byEntry = o.byEntry[1:]
}

func (o *overlay) drop(key string) {
	if p, ok := o.records[key]; ok {
		o.bytes -= len(key) + len(p.Value)
		delete(o.records, key)
	}
}

// view reads through an overlay into a state that does not change meanwhile.
type view struct {
	overlay *overlay
	state   *shard.State
	room    shard.Room
}

// Lookup implements shard.View.
func (v view) Lookup(key string) (shard.Record, bool) {
	if len(v.overlay.records) > 0 { //mutant:no-overlay
		if p, ok := v.overlay.records[key]; ok {
			return p.Record, p.Value != nil
		}
	}
	return v.state.Lookup(key)
}

// All implements shard.View.
func (v view) All() iter.Seq2[[]byte, shard.Record] {
	return func(yield func([]byte, shard.Record) bool) {
		for key, p := range v.overlay.records {
			if p.Value != nil && !yield([]byte(key), p.Record) {
				return
			}
		}
		for key, r := range v.state.All() {
			if _, newer := v.overlay.records[string(key)]; !newer && !yield(key, r) {
				return
			}
		}
	}
}

// Scan implements shard.View.
func (v view) Scan(from uint64) iter.Seq2[[]byte, shard.Record] {
	return shard.ScanOver(v.state.Scan(from), from, func(yield func(string, shard.Record) bool) {
		for key, p := range v.overlay.records {
			if !yield(key, p.Record) {
				return
			}
		}
	})
}

// Shares implements shard.View. Records that are not installed yet count as new: a policy may be refused a key a few
// entries early.
func (v view) Shares(namespace, policy string) shard.Shares {
	s := v.state.Shares(namespace, policy)
	for key, p := range v.overlay.records {
		if p.Value != nil {
			//mutant:uninstalled-escapes-the-cap
			s.AddNew(namespace, policy, key, func() bool { _, known := v.state.Lookup(key); return known })
		}
	}
	return s
}

// HasSlotRecords implements shard.View.
func (v view) HasSlotRecords() bool { return v.overlay.slotted || v.state.HasSlotRecords() }

// Room implements shard.View. Overlaid records count as new, so near the cap a few entries may be refused too early.
func (v view) Room() shard.Room { return v.room }
