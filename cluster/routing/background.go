package routing

import (
	"context"
	"sync"
	"time"
)

const (
	// finishWithin bounds background work on an operation. The shards finish the rest (Discharge).
	finishWithin = 2 * time.Second
	// maxBehind bounds the operations that are finished in the background at a time. More are left to the shards.
	maxBehind = 256
)

// background tracks the background work of a Router. Callers do not wait for it; Close does.
type background struct {
	group  sync.WaitGroup
	mu     sync.Mutex
	under  int // number of operations in progress
	closed bool
}

// start runs do in its own goroutine. It returns false if too many are running, or the Router is closed.
func (b *background) start(do func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.under >= maxBehind {
		return false
	}
	b.under++
	b.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
		defer cancel()
		do(ctx)
		b.mu.Lock()
		b.under--
		b.mu.Unlock()
	})
	return true
}
