package holder

import (
	"hash/maphash"
	"sync"
	"time"
)

// stripe is the part of the table for some keys.
type stripe[A any] struct {
	mu   sync.Mutex
	keys map[Name]*key[A] // guarded by mu, as are the keys themselves
}

// add adds a key. If there is no room, the key that was not asked for the longest leaves, of those that are not kept.
// If all are kept, the lease of one is returned, and the new key must come again: add then returns nil. The caller
// holds mu.
func (s *stripe[A]) add(name Name, now time.Duration) *key[A] {
	if len(s.keys) >= keysStripe { //mutant:leases-of-any-number
		var idle, oldest *key[A]
		for _, k := range s.keys {
			if !k.kept && (idle == nil || k.asked < idle.asked) {
				idle = k
			}
			if oldest == nil || k.asked < oldest.asked {
				oldest = k
			}
		}
		if idle == nil {
			oldest.stop()
			oldest.forgotten = true
			return nil
		}
		delete(s.keys, idle.name)
	}
	name = name.clone() // its memory is the request's
	k := &key[A]{name: name, woken: make(chan struct{}, 1), since: now, asked: now}
	s.keys[name] = k
	return k
}

// stripe returns the part of the table that has a key, under all policies and tiers.
func (h *Holder[A]) stripe(key string) *stripe[A] {
	return &h.stripes[maphash.String(h.seed, key)%stripes]
}
