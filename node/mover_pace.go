package node

import (
	"context"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

const (
	// moveRest is how much longer than a move took a node begins no other: moves get a quarter of the time, and callers
	// have the rest to themselves. On a busy machine moves take longer, and so do the pauses. Measured: what callers
	// notice is in docs/benchmarks/moves.md.
	moveRest = 3
	// moveRestMost is as long as a pause lasts at most.
	moveRestMost = 10 * time.Second
)

// movePace leaves time for callers between the moves that a node drives. Its methods may be called concurrently.
type movePace struct {
	mu    sync.Mutex
	until time.Time // guarded by mu: no move begins before
}

// rest waits until a move may begin, and reports whether that took any time.
func (p *movePace) rest(ctx context.Context) bool {
	p.mu.Lock()
	left := time.Until(p.until)
	p.mu.Unlock()
	if left <= 0 {
		return false
	}
	sleep.For(ctx, left)
	return true
}

// ended notes that a move has ended, and how long it took.
func (p *movePace) ended(took time.Duration) {
	until := time.Now().Add(min(moveRest*took, moveRestMost))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}
