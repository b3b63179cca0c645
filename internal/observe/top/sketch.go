package top

import (
	"bytes"
	"cmp"
	"slices"
)

const (
	sketchKeys  = 128 // keys that a Sketch counts
	summaryKeys = 32  // keys that are kept of an ended window
	hashSlots   = 2 * sketchKeys
)

// Sketch is Space-Saving (Metwally, Agrawal and El Abbadi 2005) with weights. A new key replaces one with the smallest
// count and inherits that count as its error. The zero value is empty.
type Sketch struct {
	total  uint64             // sum of all added counts
	used   int                // slots that have a key: the first ones
	counts [sketchKeys]uint64 // by slot
	slots  [sketchKeys]slot
	table  [hashSlots]uint8 // slot + 1, by hash with linear probing; 0 if free

	// No count is below least while all slots are used, and none before cursor is equal to it: counts only grow.
	least  uint64
	cursor int
}

// slot is a key that is counted.
type slot struct {
	hash uint64
	err  uint64 // part of the count that may be of other keys
	key  []byte // its memory is reused by the next key
}

// Add counts n, which is more than 0, for a key with its hash. It keeps a copy of the key, and returns by how many
// bytes its memory has grown.
func (s *Sketch) Add(hash uint64, key []byte, n uint64) (grown int) {
	s.total += n
	at, found := s.find(hash, key)
	if found {
		s.counts[s.table[at]-1] += n
		return 0
	}
	i, least := s.used, uint64(0)
	if i < sketchKeys {
		s.used++
	} else {
		i, least = s.smallest(), s.least
		s.unlink(i)
		at, _ = s.find(hash, key)
	}
	s.table[at] = uint8(i + 1)
	s.counts[i] = least + n
	return s.slots[i].set(hash, key, least)
}

// smallest returns the slot of the smallest count, which is least afterwards.
func (s *Sketch) smallest() int {
	for ; s.cursor < sketchKeys; s.cursor++ {
		if s.counts[s.cursor] == s.least {
			return s.cursor
		}
	}
	s.cursor = 0
	for i, n := range s.counts {
		if n < s.counts[s.cursor] {
			s.cursor = i
		}
	}
	s.least = s.counts[s.cursor]
	return s.cursor
}

// set gives the slot to a copy of a key, and returns by how many bytes its memory has grown.
func (at *slot) set(hash uint64, key []byte, err uint64) (grown int) {
	before := cap(at.key)
	if before < len(key) {
		at.key = make([]byte, 0, (len(key)+31)/32*32)
	}
	at.key = append(at.key[:0], key...)
	at.hash, at.err = hash, err
	return cap(at.key) - before
}

// find returns the table's position of a key, or where it would be. The table is never full: it has twice as many
// positions as there are slots.
func (s *Sketch) find(hash uint64, key []byte) (at int, found bool) {
	for at = int(hash % hashSlots); s.table[at] != 0; at = (at + 1) % hashSlots {
		if i := s.table[at] - 1; s.slots[i].hash == hash && bytes.Equal(s.slots[i].key, key) {
			return at, true
		}
	}
	return at, false
}

// unlink removes a slot from the table and moves those after it up, so that no search ends at the gap.
func (s *Sketch) unlink(i int) {
	gap, _ := s.find(s.slots[i].hash, s.slots[i].key)
	for at := (gap + 1) % hashSlots; s.table[at] != 0; at = (at + 1) % hashSlots {
		home := int(s.slots[s.table[at]-1].hash % hashSlots)
		if (at-home+hashSlots)%hashSlots >= (at-gap+hashSlots)%hashSlots {
			s.table[gap] = s.table[at]
			gap = at
		}
	}
	s.table[gap] = 0
}

// clear empties the sketch. It keeps the memory of its keys.
func (s *Sketch) clear() {
	s.total, s.used, s.least, s.cursor = 0, 0, 0, 0
	clear(s.table[:])
}

// Summary returns the first keys of the sketch, at most most.
func (s *Sketch) Summary(most int) Summary {
	order := make([]uint8, s.used)
	for i := range order {
		order[i] = uint8(i)
	}
	slices.SortFunc(order, func(a, b uint8) int { return cmp.Compare(s.counts[b], s.counts[a]) })
	sum := Summary{Total: s.total}
	if s.used == sketchKeys {
		sum.Floor = s.counts[order[s.used-1]]
	}
	if len(order) > most {
		sum.Floor = s.counts[order[most]]
		order = order[:most]
	}
	sum.Rows = make([]Row, len(order))
	for i, at := range order {
		sum.Rows[i] = Row{string(s.slots[at].key), s.counts[at], s.slots[at].err}
	}
	return sum
}
