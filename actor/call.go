package actor

import (
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// call is one Submit on its way: the caller's requests, answered in place.
type call struct {
	requests []shard.Request
	results  []shard.Result // written by the loop until done is signalled, read by the caller after
	deadline time.Time      // zero: none
	taken    int            // requests that went into a batch; the loop's
	answered int            // requests that have a result; the loop's
	fate     atomic.Int32   // queued, then started by the loop or abandoned by the caller: whoever is first
	done     chan struct{}  // of capacity 1: the loop never waits for a caller
	room     *room          // what the call takes size of until it is released
	size     load
}

// The fates of a call.
const (
	queued int32 = iota
	started
	abandoned
)

func newCall(requests []shard.Request, deadline time.Time, in *room, size load) *call {
	return &call{
		requests: requests,
		results:  make([]shard.Result, len(requests)),
		deadline: deadline,
		done:     make(chan struct{}, 1),
		room:     in,
		size:     size,
	}
}

// answer fills in results from position at on and signals the caller when all are there.
func (c *call) answer(at int, results []shard.Result) {
	copy(c.results[at:], results)
	c.count(len(results))
}

// fail gives n requests from position at on the same error.
func (c *call) fail(at, n int, err *shard.Error) {
	for i := range n {
		c.results[at+i] = shard.Result{Err: err}
	}
	c.count(n)
}

func (c *call) count(n int) {
	c.answered += n
	if c.answered == len(c.requests) {
		c.release()
		c.done <- struct{}{}
	}
}

// release gives the call's room back, once. Its owner calls it: Submit until the mailbox has the call, then the loop.
func (c *call) release() {
	c.room.leave(c.size)
	c.size = load{}
}
