package shard

import (
	"encoding/binary"
	"fmt"

	"github.com/stint-io/stint/shard/slot"
)

// slotSources says from which shards of a backup the records of each slot are taken. The pictures of the shards are of
// different instants, so a slot that was moving may be in two of them, or in none: the owner of the highest generation
// has it.
type slotSources [slot.Count]slotSource

// slotSource is the one shard that has a slot, or, if none has a record of it as its owner, those without a record.
type slotSource struct {
	generation uint64
	owner      ID
	recorded   bool   // owner has a record
	gone       uint64 // highest generation in which a shard has given the slot away for good
}

// read notes the SlotRecords of a shard of the backup.
func (s *slotSources) read(id ID, records []byte) error {
	for len(records) > 0 {
		value, end, ok := stringAt(records, slotBytes)
		if !ok {
			return errMalformedSlot
		}
		status, err := decodeSlotStatus(value)
		if err != nil {
			return err
		}
		s[binary.BigEndian.Uint16(records)%slot.Count].note(id, &status)
		records = records[end:]
	}
	return nil
}

func (s *slotSource) note(id ID, status *SlotStatus) {
	generation := status.Generation
	switch {
	case status.State == SlotOwned:
	case status.State == SlotPreparing, status.State == SlotFrozen && !status.Ended:
		generation-- // the other shard has it in this one
	case status.State == SlotFrozen, status.State == SlotMoved:
		s.gone = max(s.gone, generation)
		return
	default:
		return
	}
	if !s.recorded || generation > s.generation { //mutant:restore-takes-a-former-owner
		s.owner, s.generation, s.recorded = id, generation, true
	}
}

// missing reports whether the slot had left each shard of the backup when its picture was taken.
func (s *slotSource) missing() bool { return s.gone > s.generation }

// has reports whether a record of a shard is part of the backup, by its key.
func (s *slotSources) has(source *State, key string) bool {
	part := (keyLayout{}).Part(key)
	if part >= slot.Count {
		return true
	}
	if of := &s[part]; of.recorded {
		return of.owner == source.id //mutant:restore-takes-what-was-before-a-move
	}
	if !source.slotted {
		return true
	}
	status, err := readSlotStatus(source, slot.ID(part))
	return err == nil && status.State == SlotUnknown
}

// SlotRecords returns the records of slots, for MissingSlots.
func (s *State) SlotRecords() (b []byte) {
	if !s.slotted {
		return nil
	}
	for at := range slot.ID(slot.Count) {
		if r, found := s.Lookup(slotKey(at)); found {
			b = appendString(appendSlot(b, at), string(r.Value))
		}
	}
	return b
}

// MissingSlots returns how many slots are in none of the pictures of a backup, by the SlotRecords of its data shards in
// order: they moved while it was made. No restore takes such a backup.
func MissingSlots(records [][]byte) (missing int, err error) {
	sources := new(slotSources)
	for id, b := range records {
		if err := sources.read(ID(id), b); err != nil {
			return 0, err
		}
	}
	for at := range sources {
		missing += int(bit(sources[at].missing()))
	}
	return missing, nil
}

// problem refuses a backup that lacks a slot.
func (s *slotSources) problem() error {
	for at := range s {
		if s[at].missing() {
			return fmt.Errorf("slot %d is in no shard of the backup: it was moving while the backup was made; "+
				"take another", at)
		}
	}
	return nil
}
