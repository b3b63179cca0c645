package slot

import (
	"encoding/binary"
	"encoding/hex"
)

// Set is a set of slots. The zero value is empty.
type Set [Count / 64]uint64

// All returns the set of all slots.
func All() (s Set) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Add adds a slot.
func (s *Set) Add(at ID) { s[at/64] |= 1 << (at % 64) }

// Has reports whether a slot is in the set.
func (s *Set) Has(at ID) bool { return s[at/64]>>(at%64)&1 != 0 }

// And removes the slots that are not in the other set.
func (s *Set) And(other *Set) {
	for i := range s {
		s[i] &= other[i]
	}
}

// Or adds the slots of the other set.
func (s *Set) Or(other *Set) {
	for i := range s {
		s[i] |= other[i]
	}
}

// String returns the set as text: "" if it is empty, "all", or 16 hexadecimal digits for each word, in order. It is a
// part of page tokens, so another version may read it.
func (s Set) String() string {
	switch s {
	case Set{}:
		return ""
	case All():
		return "all"
	}
	b, _ := binary.Append(nil, binary.BigEndian, s[:])
	return hex.EncodeToString(b)
}

// ParseSet reads the text of a set. ok is false if it is none.
func ParseSet(text string) (s Set, ok bool) {
	switch text {
	case "":
		return s, true
	case "all":
		return All(), true
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != Count/8 {
		return Set{}, false
	}
	binary.Decode(b, binary.BigEndian, s[:])
	return s, true
}
