package actor

import (
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// call is one Submit on its way: the caller's requests, answered in place.
type call struct {
	requests []shard.Request
	results  []shard.Result // made and written by the loop until done is signalled, read by the caller after
	deadline time.Time      // zero: none
	lane     lane
	taken    int           // requests that went into a batch; the loop's
	answered int           // requests that have a result; the loop's
	fate     atomic.Int32  // queued, then started by the loop or abandoned by the caller: whoever is first
	done     chan struct{} // of capacity 1: the loop never waits for a caller
	room     *room         // what the call takes size of until it is released
	size     load
}

// The fates of a call.
const (
	queued int32 = iota
	started
	abandoned
)

func newCall(requests []shard.Request, deadline time.Time, at lane, in *room, size load) *call {
	return &call{
		requests: requests,
		deadline: deadline,
		lane:     at,
		done:     make(chan struct{}, 1),
		room:     in,
		size:     size,
	}
}

// answer fills in results from position at on and signals the caller when all are there. The results are the call's from
// now on.
func (c *call) answer(at int, results []shard.Result) {
	if len(results) == len(c.requests) {
		c.results = results
	} else {
		c.makeResults()
		copy(c.results[at:], results)
	}
	c.count(len(results))
}

// makeResults makes the results of a call that is answered in parts, or with an error.
func (c *call) makeResults() {
	if c.results == nil {
		c.results = make([]shard.Result, len(c.requests))
	}
}

// fail gives n requests from position at on the same error.
func (c *call) fail(at, n int, err *shard.Error) {
	c.makeResults()
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

// release gives the call's room back, once. Its owner calls it: Submit until the intake has the call, then the loop.
func (c *call) release() {
	c.room.leave(c.size)
	c.size = load{}
}
