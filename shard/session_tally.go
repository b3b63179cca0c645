package shard

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/shard/codec"
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
	i, _ := slices.BinarySearchFunc(tallies, number, func(t tallyReplay, n uint64) int {
		return cmp.Compare(t.number, n)
	})
	return i
}

// tell remembers the answer to a tally.
func (s *session) tell(number uint64, t *Tallied) {
	s.tallies = slices.Insert(s.tallies, placeOfReplay(s.tallies, number), tallyReplay{number, *t})
	if over := len(s.tallies) - sessionTallies; over > 0 {
		s.tallies = s.tallies[over:]
	}
}

// codeReplays is the number of tallies, and each tally: its request number, as the distance from the previous one or
// from acked, and its answer.
func (s *session) codeReplays(c *codec.Codec) {
	n := c.CountTo(len(s.tallies), min(sessionTallies, c.Left()/4))
	if c.Reading() && n > 0 {
		s.tallies = make([]tallyReplay, n)
	}
	number, before := s.acked, &Tallied{}
	for i := range s.tallies {
		t := &s.tallies[i]
		distance := t.number - number
		if codec.Uint(c, &distance, s.acked+sessionWindow-number); distance == 0 {
			c.Fail()
		}
		t.number = number + distance
		t.tallied.code(c, before)
		number, before = t.number, &t.tallied
	}
}

// code is a tally as a difference to the previous one, which it usually follows directly: flags, the distance of the
// value from that one's value, its distance from its own previous value, and the end, if it is another instant.
func (t *Tallied) code(c *codec.Codec, before *Tallied) {
	ends, rise, own := t.EndsAt != before.EndsAt, t.Value-before.Value, t.Value-t.Before
	c.Flags(&t.Known, &t.Done, &ends, &t.Was)
	codec.Int(c, &rise)
	codec.Int(c, &own)
	if !ends {
		t.EndsAt = before.EndsAt
	} else if codeTime(c, &t.EndsAt); t.EndsAt == before.EndsAt {
		c.Fail()
	}
	t.Value = before.Value + rise
	t.Before = t.Value - own
}
