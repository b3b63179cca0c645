package routing

import (
	"sync"
	"sync/atomic"
)

// notifier wakes all goroutines waiting for it. Notifications are counted, so that one between checking a condition and
// waiting is not missed. The zero value is ready; any number of goroutines may use it.
type notifier struct {
	rung    atomic.Uint64 // notifications so far; raised with mu held
	mu      sync.Mutex
	waiting chan struct{} // nil while no goroutine waits
}

// count returns how many notifications there were.
func (b *notifier) count() uint64 { return b.rung.Load() }

func (b *notifier) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung.Add(1)
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}

// after returns a channel that is closed as soon as the number of notifications differs from count.
func (b *notifier) after(count uint64) <-chan struct{} {
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
