package routing

import (
	"sync"
	"sync/atomic"
)

// bell wakes all goroutines that wait for it. Rings are counted, so that a ring between checking a condition and waiting
// is not missed. The zero value is ready; any number of goroutines may use it.
type bell struct {
	rung    atomic.Uint64
	mu      sync.Mutex
	waiting chan struct{} // nil while no goroutine waits
}

// count returns how often the bell has rung.
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

// after returns a channel that is closed as soon as the number of rings differs from count.
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
