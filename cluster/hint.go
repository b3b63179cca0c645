package cluster

import (
	"slices"
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
	byShard   []atomic.Pointer[Hint] // a hint without a node marks an epoch that is known to be over
	listeners atomic.Pointer[[]func(id shard.ID)]
}

// NewHints has room for the system shard and for those with ids below shards; hints of others are ignored.
func NewHints(shards int) *Hints { return &Hints{byShard: make([]atomic.Pointer[Hint], shards+1)} }

// place is where the hint of a shard is kept, that of the system shard last; nil if there is no room for it.
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

// OnNews has f called with the shard of every hint that Merge keeps from now on. Merge calls it: it must not block.
func (h *Hints) OnNews(f func(id shard.ID)) {
	for {
		known := h.listeners.Load()
		var all []func(shard.ID)
		if known != nil {
			all = slices.Clone(*known)
		}
		all = append(all, f)
		if h.listeners.CompareAndSwap(known, &all) {
			return
		}
	}
}

func (h *Hints) tell(id shard.ID) {
	if listeners := h.listeners.Load(); listeners != nil {
		for _, f := range *listeners {
			f(id)
		}
	}
}

// Merge keeps hint if its epoch is higher than what is known of the shard, and reports whether it did. An epoch has one
// owner, so of two hints of one epoch the first stays.
func (h *Hints) Merge(hint Hint) bool {
	place := h.place(hint.Shard)
	if place == nil || hint.Node == "" {
		return false
	}
	for {
		known := place.Load()
		if known != nil && known.Epoch >= hint.Epoch {
			return false
		}
		if place.CompareAndSwap(known, &hint) {
			h.tell(hint.Shard)
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

// Drop forgets a hint whose node said that it does not own the shard. A hint with a higher epoch that came meanwhile
// stays; the dropped one, or an older one, does not come back with the next gossip. (SEMANTICS X15.)
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
