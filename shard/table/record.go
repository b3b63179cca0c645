package table

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// Record is what is stored under a key.
type Record struct {
	Value    []byte
	ForgetAt limit.Time // the record no longer matters from this instant on; limit.Forever: it is never swept
}

// MaxKeyBytes and MaxRecordBytes bound a record, and with maxRecords what a decoder allocates.
const (
	MaxKeyBytes    = 1 << 10
	MaxRecordBytes = 64 << 20
	maxRecords     = 1 << 32
)

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
