package cluster

import (
	"sync"
	"sync/atomic"
)

// bell wakes everybody who waits for it. Rings are counted, so that one between a look at the world and the wait is
// not missed. The zero value is ready; it may be used by any number of goroutines.
type bell struct {
	rung    atomic.Uint64
	mu      sync.Mutex
	waiting chan struct{} // nil while nobody waits
}

// count is how often the bell has rung.
func (b *bell) count() uint64 { return b.rung.Load() }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung.Add(1)
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}

// after returns a channel that is closed when the bell has rung more than count times.
func (b *bell) after(count uint64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung.Load() != count {
		rung := make(chan struct{})
		close(rung)
		return rung
	}
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}
