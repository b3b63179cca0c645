package shard

import (
	"iter"
	"math/bits"

	"github.com/stint-io/stint/shard/codec"
)

// numbers is a set of request numbers of a session: bit n%8 of byte n/8 - from stands for n. Neither the first nor the
// last byte is 0.
type numbers struct {
	from uint64
	bits []byte
}

func (s *numbers) has(n uint64) bool {
	at := n/8 - s.from
	return n/8 >= s.from && at < uint64(len(s.bits)) && s.bits[at]>>(n%8)&1 != 0
}

// within reports whether s is a subset of t.
func (s *numbers) within(t *numbers) bool {
	if len(s.bits) == 0 {
		return true
	}
	if s.from < t.from || s.from-t.from+uint64(len(s.bits)) > uint64(len(t.bits)) {
		return false
	}
	for i, row := range s.bits {
		if row&^t.bits[s.from-t.from+uint64(i)] != 0 {
			return false
		}
	}
	return true
}

// add adds n to the set. The gap between n and the other numbers costs an eighth of a byte per number.
func (s *numbers) add(n uint64) {
	at := n / 8
	if len(s.bits) == 0 {
		s.from = at
	}
	if at < s.from {
		s.bits = append(make([]byte, s.from-at, s.from-at+uint64(len(s.bits))), s.bits...)
		s.from = at
	}
	for at-s.from >= uint64(len(s.bits)) {
		s.bits = append(s.bits, 0)
	}
	s.bits[at-s.from] |= 1 << (n % 8)
}

// through iterates over the numbers of the set up to last. The set must not change in the meantime.
func (s *numbers) through(last uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i, row := range s.bits {
			for ; row != 0; row &= row - 1 {
				n := (s.from+uint64(i))*8 + uint64(bits.TrailingZeros8(row))
				if n > last || !yield(n) {
					return
				}
			}
		}
	}
}

// dropThrough removes every number up to last.
func (s *numbers) dropThrough(last uint64) {
	for len(s.bits) > 0 && s.from < last/8 {
		s.from++
		s.bits = s.bits[1:]
	}
	if len(s.bits) > 0 && s.from == last/8 {
		s.bits[0] &= 0xfe << (last % 8)
	}
	for len(s.bits) > 0 && s.bits[0] == 0 {
		s.from++
		s.bits = s.bits[1:]
	}
}

// code is a set of numbers above acked, at most a session's window above it: the number of bytes skipped before the
// first, the number of bytes, the bytes.
func (s *numbers) code(c *codec.Codec, acked uint64) {
	skipped := s.from - acked/8
	if len(s.bits) == 0 {
		skipped = 0
	}
	codec.Uint(c, &skipped, sessionWindow/8+1)
	n := c.CountTo(len(s.bits), int(sessionWindow/8+1-skipped))
	if c.Reading() && n > 0 {
		*s = numbers{acked/8 + skipped, make([]byte, n, n+48)}
	}
	allowed := byte(0xff)
	if skipped == 0 {
		allowed = 0xfe << (acked % 8)
	}
	c.Array(s.bits)
	if n == 0 && skipped != 0 || n > 0 && (s.bits[0] == 0 || s.bits[0]&^allowed != 0 || s.bits[n-1] == 0) {
		c.Fail()
	}
}
