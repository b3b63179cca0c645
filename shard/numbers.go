package shard

import "encoding/binary"

// numbers is a set of request numbers of a session: bit n%8 of byte n/8 - from is n. Neither its first nor its last
// byte is 0.
type numbers struct {
	from uint64
	bits []byte
}

func (s *numbers) has(n uint64) bool {
	at := n/8 - s.from
	return n/8 >= s.from && at < uint64(len(s.bits)) && s.bits[at]>>(n%8)&1 != 0
}

// add puts n into the set. What lies between it and the others costs an eighth of a byte each.
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

// dropThrough takes out every number up to last.
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

// append writes a set of numbers above acked: how many bytes are left out before the first, how many follow, these.
func (s *numbers) append(b []byte, acked uint64) []byte {
	if len(s.bits) == 0 {
		return append(b, 0, 0)
	}
	b = binary.AppendUvarint(b, s.from-acked/8)
	b = binary.AppendUvarint(b, uint64(len(s.bits)))
	return append(b, s.bits...)
}

// numbers reads a set of numbers above acked, none of them further above it than a session's window. The set has
// bytes of its own.
func (r *reader) numbers(acked uint64) (s numbers) {
	skipped, length := r.uvarint(), r.uvarint()
	if skipped > sessionWindow/8+1 || length > sessionWindow/8+1-skipped {
		r.failed = true
	}
	bits := r.bytes(length)
	if r.failed || length == 0 {
		r.failed = r.failed || skipped != 0
		return numbers{}
	}
	s = numbers{from: acked/8 + skipped, bits: append(make([]byte, 0, length+8), bits...)}
	first := s.bits[0]
	if skipped == 0 {
		first &= 0xfe << (acked % 8)
	}
	r.failed = first == 0 || first != s.bits[0] || s.bits[length-1] == 0
	return s
}
