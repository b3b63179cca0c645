package cluster

import (
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

// Hint says which node opened a shard for business, and with which epoch. It may be out of date: only the shard's log
// knows. (SEMANTICS R17.)
type Hint struct {
	Shard shard.ID
	Epoch uint64
	Node  string
}

// Hints remembers for every shard the hint with the highest epoch. It may be used by any number of goroutines;
// a Lookup waits for nobody.
type Hints struct {
	byShard []atomic.Pointer[Hint] // a hint without a node marks an epoch that is known to be over
}

// NewHints has room for the shards with ids below shards; hints of others are ignored.
func NewHints(shards int) *Hints { return &Hints{byShard: make([]atomic.Pointer[Hint], shards)} }

// Merge keeps hint if its epoch is higher than what is known of the shard, and reports whether it did. An epoch has one
// owner, so of two hints of one epoch the first stays.
func (h *Hints) Merge(hint Hint) bool {
	if int(hint.Shard) >= len(h.byShard) || hint.Node == "" {
		return false
	}
	place := &h.byShard[hint.Shard]
	for {
		known := place.Load()
		if known != nil && known.Epoch >= hint.Epoch {
			return false
		}
		if place.CompareAndSwap(known, &hint) {
			return true
		}
	}
}

// Lookup returns the hint of a shard, if there is one.
func (h *Hints) Lookup(id shard.ID) (Hint, bool) {
	if int(id) >= len(h.byShard) {
		return Hint{}, false
	}
	known := h.byShard[id].Load()
	if known == nil || known.Node == "" {
		return Hint{}, false
	}
	return *known, true
}

// Drop forgets a hint whose node said that it does not own the shard. A hint with a higher epoch that came meanwhile
// stays; the dropped one, or an older one, does not come back with the next gossip. (SEMANTICS X15.)
func (h *Hints) Drop(hint Hint) {
	if int(hint.Shard) >= len(h.byShard) {
		return
	}
	place := &h.byShard[hint.Shard]
	known := place.Load()
	if known != nil && known.Epoch == hint.Epoch {
		place.CompareAndSwap(known, &Hint{Shard: hint.Shard, Epoch: hint.Epoch})
	}
}

// all returns the hints that name a node, in the order of their shards.
func (h *Hints) all() []Hint {
	var hints []Hint
	for id := range h.byShard {
		if hint, ok := h.Lookup(shard.ID(id)); ok {
			hints = append(hints, hint)
		}
	}
	return hints
}
