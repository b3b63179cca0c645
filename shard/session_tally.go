package shard

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// The result of a tally cannot be derived from the later state, so the session remembers it for as long as a copy of
// the request may arrive, that is, until the request is finished. It is in the session's own record, which is written
// anyway. Batches count on few keys, so a tally takes about four bytes.

// tallyReplay is the answer to one request of a session.
type tallyReplay struct {
	number  uint64
	tallied Tallied
}

// placeOfReplay returns the index of a number, or the index where it would be inserted.
func placeOfReplay(tallies []tallyReplay, number uint64) int {
	if n := len(tallies); n == 0 || tallies[n-1].number < number { // the usual case
		return n
	}
	i, _ := slices.BinarySearchFunc(tallies, number, func(t tallyReplay, n uint64) int { return cmp.Compare(t.number, n) })
	return i
}

// tell remembers the answer to a tally.
func (s *session) tell(number uint64, t *Tallied) {
	s.tallies = slices.Insert(s.tallies, placeOfReplay(s.tallies, number), tallyReplay{number, *t})
	if over := len(s.tallies) - sessionTallies; over > 0 {
		s.tallies = s.tallies[over:]
	}
}

// appendReplays writes the number of tallies, and each tally: its request number, as the distance from the previous one
// or from acked, and its answer.
func appendReplays(b []byte, tallies []tallyReplay, acked uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(tallies)))
	before := &Tallied{}
	for i := range tallies {
		t := &tallies[i]
		b = binary.AppendUvarint(b, t.number-acked)
		b = t.tallied.append(b, before)
		acked, before = t.number, &t.tallied
	}
	return b
}

// replays reads tallies written by appendReplays.
func (r *reader) replays(acked uint64) []tallyReplay {
	count := r.uvarint()
	if count > sessionTallies || count > uint64(len(r.rest))/4 {
		r.failed = true
		return nil
	}
	if count == 0 {
		return nil
	}
	tallies := make([]tallyReplay, count)
	before, last := &Tallied{}, acked+sessionWindow
	for i := range tallies {
		t := &tallies[i]
		distance := r.uvarint()
		r.failed = r.failed || distance == 0 || distance > last-acked
		t.number = acked + distance
		t.tallied = r.tallied(before)
		acked, before = t.number, &t.tallied
	}
	return tallies
}

// The bits of a tally in records.
const (
	talliedKnown = 1 << iota
	talliedDone
	talliedEnds // at another instant than the previous one, which follows
	talliedWas
)

// append writes a tally as a difference to the previous one, which it usually follows directly: flags, the distance of
// the value from that one's value, its distance from its own previous value, and the end.
func (t *Tallied) append(b []byte, before *Tallied) []byte {
	b = append(b, bit(t.Known)*talliedKnown|bit(t.Done)*talliedDone|bit(t.EndsAt != before.EndsAt)*talliedEnds|bit(t.Was)*talliedWas)
	b = binary.AppendVarint(b, t.Value-before.Value)
	b = binary.AppendVarint(b, t.Value-t.Before)
	if t.EndsAt != before.EndsAt {
		b = binary.AppendUvarint(b, uint64(t.EndsAt))
	}
	return b
}

func (r *reader) tallied(before *Tallied) Tallied {
	flags := r.byte()
	t := Tallied{Known: flags&talliedKnown != 0, Done: flags&talliedDone != 0, Was: flags&talliedWas != 0,
		EndsAt: before.EndsAt}
	t.Value = before.Value + r.varint()
	t.Before = t.Value - r.varint()
	if flags&talliedEnds != 0 {
		t.EndsAt = r.time()
		r.failed = r.failed || t.EndsAt == before.EndsAt
	}
	r.failed = r.failed || flags > talliedKnown|talliedDone|talliedEnds|talliedWas
	return t
}
