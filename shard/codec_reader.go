package shard

import "encoding/binary"

// reader reads values from the front of a byte slice. After the first missing value, failed stays set and every further
// value is zero, so callers check once, at the end.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return take(r, v, n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return take(r, v, n)
}

func take[V uint64 | int64](r *reader, v V, n int) V {
	if r.failed || n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes returns the next n bytes, which share the slice's memory.
func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	b := r.bytes(1)
	if r.failed {
		return 0
	}
	return b[0]
}

// bits reads a byte in which only these bits may be set.
func (r *reader) bits(known byte) byte {
	b := r.byte()
	r.failed = r.failed || b&^known != 0
	return b
}

func (r *reader) string() string { return string(r.bytes(r.uvarint())) }

// count reads the number of values that follow. Each has at least one byte, so it is never more than the bytes left.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.failed = true
		return 0
	}
	return n
}
