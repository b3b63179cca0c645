package table

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// Record is what is stored under a key.
type Record struct {
	Value    []byte
	ForgetAt limit.Time // the record no longer matters from this instant on
}

// Layout describes the keys of a Table. Its methods are called for each change, and must not keep the key.
type Layout interface {
	// Parts returns the number of parts, from 1 to 2048. It never changes.
	Parts() int
	// Part returns the part to which a key belongs, from 0 to Parts()-1. It never changes.
	Part(key string) int
	// Head returns how many bytes at the beginning of a key it has in common with many others, or 0. In memory a record
	// has a number in place of them.
	Head(key string) int
}

// Count is called with each change: the number of records more, 1, 0 or -1, and of bytes of keys and values. It must
// not keep the key.
type Count func(key string, records, bytes int)

// partBits are the bits that the number of a part has of a place.
const partBits = 11

// sum returns the record's share of a table's sum.
func (r Record) sum(keyHash uint64) uint64 {
	return Mix(keyHash^xxhash.Sum64(r.Value)*0x9e3779b97f4a7c15, uint64(r.ForgetAt))
}

// Mix returns a number that depends on every bit of x and y.
func Mix(x, y uint64) uint64 {
	x ^= y * 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}
