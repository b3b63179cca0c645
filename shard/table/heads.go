package table

import "strings"

// Many keys of a shard begin alike. In memory a record has the number of such a head in place of its text. There are
// 255 numbers, first come first served; a head without one is a part of the key. So text chosen by clients cannot make
// this list large. Which heads have numbers is in no sum and no picture, and may differ between replicas.

// headTexts are the heads by their numbers. 0, and a free number, is "".
type headTexts struct {
	generation uint64 // of the table when they were copied; a Picture may share older ones
	texts      [256]string
}

// heads gives heads their numbers.
type heads struct {
	texts   *headTexts
	numbers map[string]byte // of the texts in use, 1 to 255; nil until there is one
	records [256]int        // that have the number; at 0 it is free
}

// take counts a record with this key, and returns the number of its head and the rest of the key.
func (t *Table) take(key string) (number byte, rest string) {
	length := t.layout.Head(key)
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
func (t *Table) newHead(text string) byte {
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
	t.setHead(byte(number), text)
	return byte(number)
}

// release undoes take. The number is free when no record has it.
func (t *Table) release(number byte) {
	if number == 0 {
		return
	}
	if t.heads.records[number]--; t.heads.records[number] == 0 { //mutant:head-reused-too-early
		delete(t.heads.numbers, t.heads.texts.texts[number])
		t.setHead(number, "")
	}
}

func (t *Table) setHead(number byte, text string) {
	if t.heads.texts.generation != t.generation { //mutant:head-changes-in-a-snapshot
		t.heads.texts = &headTexts{t.generation, t.heads.texts.texts}
	}
	t.heads.texts.texts[number] = text
}
