package gossip

import (
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

// Hint names the node that opened a shard, and its epoch. It may be out of date: only the shard's log is authoritative.
// (R17.)
type Hint struct {
	Shard shard.ID
	Epoch uint64
	Node  string
}

// Hints remembers for every shard the hint with the highest epoch. Any number of goroutines may use it; Lookup never
// blocks.
type Hints struct {
	byShard []atomic.Pointer[Hint] // a hint without a node marks an epoch that is known to have ended
	onNews  atomic.Pointer[func(id shard.ID)]
}

// NewHints returns Hints with room for the system shard and for the shards with ids below shards. Hints for other
// shards are ignored.
func NewHints(shards int) *Hints { return &Hints{byShard: make([]atomic.Pointer[Hint], shards+1)} }

// place returns the slot of a shard's hint, the last one for the system shard, or nil if there is no room for it.
func (h *Hints) place(id shard.ID) *atomic.Pointer[Hint] {
	last := len(h.byShard) - 1
	switch {
	case id == shard.System:
		return &h.byShard[last]
	case int(id) < last:
		return &h.byShard[id]
	}
	return nil
}

// OnNews has Merge call f, and no other function, with the shard of every hint that it keeps from now on. f must not
// block.
func (h *Hints) OnNews(f func(id shard.ID)) { h.onNews.Store(&f) }

// Merge keeps hint if its epoch is higher than the shard's known one, and reports whether it did. An epoch has one
// owner, so of two hints with one epoch the first stays.
func (h *Hints) Merge(hint Hint) bool {
	place := h.place(hint.Shard)
	if place == nil || hint.Node == "" {
		return false
	}
	for {
		known := place.Load()
		if known != nil && known.Epoch >= hint.Epoch { //mutant:older-hint-wins
			return false
		}
		if place.CompareAndSwap(known, &hint) {
			if f := h.onNews.Load(); f != nil {
				(*f)(hint.Shard)
			}
			return true
		}
	}
}

// Lookup returns the hint of a shard, if there is one.
func (h *Hints) Lookup(id shard.ID) (Hint, bool) {
	place := h.place(id)
	if place == nil {
		return Hint{}, false
	}
	known := place.Load()
	if known == nil || known.Node == "" {
		return Hint{}, false
	}
	return *known, true
}

// Drop forgets a hint after its node has answered that it does not own the shard. A newer hint that arrived meanwhile
// stays. The dropped hint, or an older one, does not come back with the next gossip. (X15.)
func (h *Hints) Drop(hint Hint) {
	place := h.place(hint.Shard)
	if place == nil {
		return
	}
	known := place.Load()
	if known != nil && known.Epoch == hint.Epoch {
		place.CompareAndSwap(known, &Hint{Shard: hint.Shard, Epoch: hint.Epoch})
	}
}

// all returns the hints that name a node, in the order of their shards.
func (h *Hints) all() []Hint {
	var hints []Hint
	for i := range h.byShard {
		if hint := h.byShard[i].Load(); hint != nil && hint.Node != "" {
			hints = append(hints, *hint)
		}
	}
	return hints
}
