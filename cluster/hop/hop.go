package hop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// MaxHops is how often a request may be forwarded: once if the first node's hint is right, twice after an owner
// changed. Beyond that, a request is refused instead of being sent in circles.
const MaxHops = 2

const (
	beatEvery   = 500 * time.Millisecond
	maxMissed   = 4 // beats: a connection that is silent for 2 s is given up
	redialAfter = 100 * time.Millisecond
)

// Pace is how a Hop uses its connections.
type Pace struct {
	DialWithin time.Duration // bounds the making of a connection
	// Flights bounds the flights of a shard that are in progress on a connection.
	Flights int
}

// The paces. Near is that of nodes beside each other: while one flight is decided, another one travels. Far is that of
// a wide area, where a call that waited for a flight would wait for a round trip.
var (
	Near = Pace{DialWithin: time.Second, Flights: 2}
	Far  = Pace{DialWithin: 3 * time.Second, Flights: 64}
)

// Hop forwards requests to the nodes that own them. There is one connection to each node. All calls that wait when it
// becomes writable go into one frame, so frames grow with the load and no call waits for a timer. All methods may be
// called concurrently.
type Hop struct {
	pace       Pace
	dial       func(ctx context.Context, node string) (net.Conn, error)
	closing    context.Context // ends when Close ends the links
	close      context.CancelFunc
	goroutines sync.WaitGroup
	sent       counts // by all links

	mu     sync.Mutex
	links  map[string]*link // by node; one that is over stays until it is replaced
	closed bool             // set before closing ends, so that no link starts after that
}

// New creates a Hop over the connections that dial makes (peer.Port.DialHop). If dial returns a *shard.Error, that is
// the answer to the requests. Close must be called.
func New(pace Pace, dial func(ctx context.Context, node string) (net.Conn, error)) *Hop {
	h := &Hop{pace: pace, dial: dial, links: make(map[string]*link)}
	h.closing, h.close = context.WithCancel(context.Background())
	return h
}

// Close ends all connections and waits for their goroutines. Calls in flight end as they do when a connection breaks.
func (h *Hop) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.close()
	h.goroutines.Wait()
}

// Submit sends requests for one shard to a node and returns one result for each, in their order. hops is how often the
// requests were forwarded before: 0 at the node that received them from a client, else the value passed to the Handler.
// The caller must not change the requests until Submit returns. Submit returns when ctx ends at the latest.
//
// The error code tells the fate of a request. These certainly changed nothing: Overloaded (too much is in flight to
// that node, or ctx ended before the call was sent), Unavailable (the node could not be reached, or the connection
// broke before the call was sent), Draining (the node said that it did not begin the call), NotOwner (too many hops),
// and Invalid (more than a frame may carry). UnknownOutcome means that the call was sent and no answer came. Every
// other code is the node's own.
func (h *Hop) Submit(ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	if len(requests) == 0 {
		return nil
	}
	if hops >= MaxHops {
		return shard.RefuseAll(len(requests), &shard.Error{Code: shard.NotOwner, RetryAfter: 100e3,
			Message: fmt.Sprintf(
				"the request was forwarded %d times and found no owner of shard %d; ask again", hops, id)})
	}
	body, err := encodeCall(hops+1, id, requests)
	if err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	deadline, _ := ctx.Deadline()
	c := &call{shard: id, requests: len(requests), body: body, size: len(body), deadline: deadline,
		done: make(chan struct{})}
	l := h.link(node)
	if err := l.enqueue(c); err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		l.abandon(c)
	}
	return c.results
}

// link returns the current connection to a node, or a new one. A connection that has just failed is kept for a moment,
// so that an unreachable node is not dialed for every request.
func (h *Hop) link(node string) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.links[node]; l != nil && !l.isOver() {
		return l
	}
	l := newLink(node, h.pace, &h.sent)
	if h.closed {
		l.end(errHopClosed)
		return l
	}
	h.links[node] = l
	h.goroutines.Go(func() { l.run(h.closing, h.dial) })
	return l
}

var errHopClosed = errors.New("this node is stopping")

// Stats counts what a Hop has sent since it was created: calls of Submit, the requests in them, and the frames that
// carried them. Beats are not counted.
type Stats struct{ Calls, Requests, Frames uint64 }

// Stats returns the counts so far. While calls are in flight the counts may be a frame apart.
func (h *Hop) Stats() Stats {
	return Stats{h.sent.calls.Load(), h.sent.requests.Load(), h.sent.frames.Load()}
}

type counts struct{ calls, requests, frames atomic.Uint64 }

// add counts a frame and its calls. A frame without calls does not count.
func (c *counts) add(calls, requests int) {
	if calls > 0 {
		c.calls.Add(uint64(calls))
		c.requests.Add(uint64(requests))
		c.frames.Add(1)
	}
}
