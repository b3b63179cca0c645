package top

import (
	"hash/maphash"
	"sync/atomic"
)

// Budget bounds the memory of all boards of a node, in bytes. It may be used concurrently.
type Budget struct {
	most int64
	used atomic.Int64 // for a moment more than most, while take fails
	seed maphash.Seed // of the hashes of keys on all boards
}

// NewBudget makes a budget of so many bytes; 0 means 32 MiB.
func NewBudget(most int64) *Budget {
	if most == 0 {
		most = 32 << 20
	}
	return &Budget{most: most, seed: maphash.MakeSeed()}
}

// Used returns an estimate of the bytes in use.
func (b *Budget) Used() int { return int(b.used.Load()) }

// take reports whether there is room for n more bytes below most, and if so takes it.
func (b *Budget) take(n int, most int64) bool {
	if b.used.Add(int64(n)) <= most {
		return true
	}
	b.used.Add(int64(-n))
	return false
}

// ownTables is the part of the budget that tables of one policy may take. The rest is for tables that are shared.
func (b *Budget) ownTables() int64 { return b.most / 4 * 3 }
