package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// children keeps the series of one family by their labels, so that the hot path neither hashes label values nor
// allocates. Reads take no lock; the first use of a label copies the map.
type children[K comparable, V any] struct {
	make  func(K) V
	known atomic.Pointer[map[K]V]
	grow  sync.Mutex // held while known is replaced
}

func newChildren[K comparable, V any](makeChild func(K) V) *children[K, V] {
	c := &children[K, V]{make: makeChild}
	c.known.Store(&map[K]V{})
	return c
}

func (c *children[K, V]) of(labels K) V {
	if child, ok := (*c.known.Load())[labels]; ok {
		return child
	}
	return c.add(labels)
}

// all returns the series that there are. It must not be changed.
func (c *children[K, V]) all() map[K]V { return *c.known.Load() }

func (c *children[K, V]) add(labels K) V {
	c.grow.Lock()
	defer c.grow.Unlock()
	known := *c.known.Load()
	if child, ok := known[labels]; ok {
		return child
	}
	grown := maps.Clone(known)
	grown[labels] = c.make(labels)
	c.known.Store(&grown)
	return grown[labels]
}
