package actor

import (
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// call is one Submit in progress: the caller's requests and their results.
type call struct {
	requests  []shard.Request // read by the loop until all are answered, even if Submit has given up
	results   []shard.Result  // written by the loop until done is signaled, read by the caller afterwards
	deadline  time.Time       // zero if there is none
	class     queueClass
	taken     int           // requests that went into a batch; used by the loop only
	answered  int           // requests that have a result; used by the loop only
	fate      atomic.Int32  // queued, then started by the loop or abandoned by the caller, whichever comes first
	done      chan struct{} // of capacity 1: the loop never waits for a caller
	admission *admission    // where the call occupies size until it is released
	size      load          // zero once it is released
	followed  []shard.Trace // of the traced requests; nearly always nil
}

// The fates of a call.
const (
	queued int32 = iota
	started
	abandoned
)

func newCall(requests []shard.Request, deadline time.Time, at queueClass, in *admission, size load) *call {
	return &call{
		requests:  requests,
		deadline:  deadline,
		class:     at,
		done:      make(chan struct{}, 1),
		admission: in,
		size:      size,
	}
}

// answer sets the results of the requests from position at on, and signals the caller when all results are set. The
// call takes over the slice.
func (c *call) answer(at int, results []shard.Result) {
	if len(results) == len(c.requests) {
		c.results = results
	} else {
		if c.results == nil {
			c.results = make([]shard.Result, len(c.requests))
		}
		copy(c.results[at:], results)
	}
	if c.answered += len(results); c.answered == len(c.requests) {
		c.release()
		c.done <- struct{}{}
	}
}

// fail sets the same error for n requests from position at on.
func (c *call) fail(at, n int, err *shard.Error) { c.answer(at, shard.RefuseAll(n, err)) }

// abandon gives up a call. Its requests are certainly not applied if the loop has not begun it.
func abandon(c *call) []shard.Result {
	if c.fate.CompareAndSwap(queued, abandoned) {
		return shard.RefuseAll(len(c.requests), errDeadline)
	}
	select {
	case <-c.done: // it was just answered
		return c.results
	default:
		return shard.RefuseAll(len(c.requests), errUnknown)
	}
}

// release returns the call's room, once. It is called by the call's owner: Submit until the intake has the call, then
// the loop.
func (c *call) release() {
	c.admission.leave(c.size)
	c.size = load{}
}

// tracesOf returns the traces of traced requests, without repeating that of the request before, or nil.
func tracesOf(requests []shard.Request) (followed []shard.Trace) {
	for i := range requests {
		if t := requests[i].Trace; t != nil && (i == 0 || t != requests[i-1].Trace) {
			followed = append(followed, t)
		}
	}
	return followed
}

// reached reports a step to the traces of the call's requests.
func (c *call) reached(step shard.TraceStep, at time.Time) {
	for _, t := range c.followed {
		t.Reached(step, at)
	}
}
