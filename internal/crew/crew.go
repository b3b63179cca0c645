package crew

import (
	"sync"
	"sync/atomic"
)

// idleMost bounds the goroutines of a crew that wait for a function. Those beyond it end.
const idleMost = 64

// Crew runs functions concurrently. It starts a goroutine when none of its own is idle, so a function never waits for another.
// All methods may be called concurrently, and Go from within a function.
type Crew struct {
	work  chan func() // to an idle goroutine
	ended chan struct{}
	end   func() // closes ended, once
	idle  atomic.Int32

	functions sync.WaitGroup // that have not returned
	members   sync.WaitGroup // the goroutines
}

// New returns a crew without goroutines. The caller must Close it.
func New() *Crew {
	ended := make(chan struct{})
	return &Crew{work: make(chan func()), ended: ended, end: sync.OnceFunc(func() { close(ended) })}
}

// Go runs f. It may be called while Wait or Close waits only if a function that they wait for calls it.
func (c *Crew) Go(f func()) {
	c.functions.Add(1)
	select {
	case c.work <- f:
	default:
		c.members.Go(func() { c.serve(f) })
	}
}

func (c *Crew) serve(f func()) {
	for {
		f()
		c.functions.Done()
		if c.idle.Add(1) > idleMost {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.work:
			c.idle.Add(-1)
		case <-c.ended:
			return
		}
	}
}

// Wait returns when every function has.
func (c *Crew) Wait() { c.functions.Wait() }

// Close returns when every function has, and all goroutines have ended. It may be called more than once.
func (c *Crew) Close() {
	c.functions.Wait()
	c.end()
	c.members.Wait()
}
