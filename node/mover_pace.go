package node

import (
	"context"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

const (
	// moveRest is how many times as long as it worked on a move a node then rests, and again as long for each other
	// shard that slots move to, whose moves another node drives: moves get a quarter of the time, and callers have the
	// rest to themselves. On a busy machine moves take longer, and so do the pauses. Measured: docs/benchmarks/moves.md.
	moveRest = 3
	// moveRestMost is as long as a pause lasts at most.
	moveRestMost = 10 * time.Second
)

// movePace leaves time for callers beside the moves that a node drives: before a move, and whenever a part of a moved
// slot has been removed. Between the freeze of a slot and its new owner there is no pause, as its keys wait. The methods
// may be called concurrently.
type movePace struct {
	mu    sync.Mutex
	until time.Time // guarded by mu: nothing begins before
}

// rest waits until work may begin, and reports whether that took any time.
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

// worked notes how long a node worked without a pause, and how many of them drive moves.
func (p *movePace) worked(took time.Duration, drivers int) {
	until := time.Now().Add(min(time.Duration(moveRest*drivers)*took, moveRestMost))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}
