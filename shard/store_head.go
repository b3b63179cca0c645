package shard

import "strings"

// Most keys of a shard begin alike: kind, namespace and policy. In memory a record has the number of such a head in place of its
// text. There are 255 numbers, first come first served; a head without one is a part of the key. So what clients may choose,
// such as namespaces, cannot make this table large. Which heads have numbers is in no sum and no snapshot, and may differ
// between replicas.

// heads are the texts by their numbers. 0, and a number that is free, is "".
type heads struct {
	generation uint64 // as of a chunk
	texts      [256]string
}

// headNumbers knows which numbers are in use. It belongs to the table; pictures do not need it.
type headNumbers struct {
	numbers map[string]byte
	records [256]int // that have the number
}

// headLength returns how many bytes of a key are its head: with the policy of a counter, up to the namespace of other records.
// The label of inline limits is a client's to choose, and often a part of the key.
func headLength(key string) int {
	if key == "" {
		return 0
	}
	switch key[0] {
	case counterRecord, answerRecord, legRecord, rulingRecord:
	default:
		return 0
	}
	namespace, ok := endOfString(key, 1)
	if !ok {
		return 0
	}
	policy, ok := endOfString(key, namespace)
	if key[0] != counterRecord || !ok || strings.HasPrefix(key[namespace+1:], InlinePolicy) {
		return namespace
	}
	return policy
}

// take counts a record with this key, and returns the number of its head and what follows the head.
func (t *table) take(key string) (number byte, rest string) {
	length := headLength(key)
	if length == 0 {
		return 0, key
	}
	number, known := t.heads.numbers[key[:length]]
	if !known {
		if number = t.newHead(key[:length]); number == 0 {
			return 0, key
		}
	}
	t.heads.records[number]++
	return number, key[length:]
}

// newHead gives a head a number, or 0 if none is free.
func (t *table) newHead(text string) byte {
	if len(t.heads.numbers) == len(t.heads.records)-1 {
		return 0
	}
	number := 1
	for t.heads.records[number] > 0 {
		number++
	}
	if t.heads.numbers == nil {
		t.heads.numbers = make(map[string]byte)
	}
	text = strings.Clone(text)
	t.heads.numbers[text] = byte(number)
	t.segments.setHead(byte(number), text)
	return byte(number)
}

// release is take's opposite. The number is free when no record has it.
func (t *table) release(number byte) {
	if number == 0 {
		return
	}
	if t.heads.records[number]--; t.heads.records[number] == 0 { //mutant:head-reused-too-early
		delete(t.heads.numbers, t.segments.heads.texts[number])
		t.segments.setHead(number, "")
	}
}
