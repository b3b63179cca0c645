package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

const (
	flightsMost = 2         // calls under way to one node: one is being decided while another travels
	checksMost  = 1000      // in one call; the server accepts no more
	bytesMost   = 900 << 10 // in one call; the server accepts 1 MiB
	callWithin  = 10 * time.Second
)

// nodeQueue batches the checks for one node. Each call takes all the checks that wait when it begins, so batches grow
// with the load and no check waits for a timer.
type nodeQueue struct {
	mu      sync.Mutex // guards all fields
	waiting []*item    // oldest first
	flights int        // goroutines that send, counted before they start; at most flightsMost
}

// item is one check that waits or is under way.
type item struct {
	request *stintv1.CheckRequest
	ctx     context.Context      // of the caller; a batch takes no more of it than the deadline
	done    chan *stintv1.Result // has capacity for the one result
}

// do sends one check to the queue's node and waits for the result or for the end of ctx. A check with a ctx that is
// over is not sent: its answer might come first, so that the outcome would be a matter of chance.
func (l *nodeQueue) do(ctx context.Context, c *Client, n *node, r *stintv1.CheckRequest) *stintv1.Result {
	if ctx.Err() != nil {
		return notSent(ctx)
	}
	it := &item{request: r, ctx: ctx, done: make(chan *stintv1.Result, 1)}
	l.mu.Lock()
	l.waiting = append(l.waiting, it)
	begins := l.flights < flightsMost
	if begins {
		l.flights++
	}
	l.mu.Unlock()
	if begins {
		l.begin(c, n)
	}
	select {
	case result := <-it.done:
		return result
	case <-ctx.Done():
	}
	if l.withdraw(it) {
		return notSent(ctx)
	}
	select {
	case result := <-it.done:
		return result
	default:
		return failure(connect.CodeAborted, "no answer in time: the check may have been counted", true)
	}
}

// begin starts the sending goroutine. On a closed client it refuses all waiting checks.
func (l *nodeQueue) begin(c *Client, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.refuse()
		return
	}
	c.goroutines.Go(func() { l.fly(c, n) })
}

// refuse fails all waiting checks, and takes back the flight that do has counted.
func (l *nodeQueue) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights--
	for _, it := range l.waiting {
		it.done <- failure(connect.CodeCanceled, "the client is closed; nothing was counted", false)
	}
	l.waiting = nil
}

// withdraw removes an item that has not been sent. It returns false if the item is under way.
func (l *nodeQueue) withdraw(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, it)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// fly sends one batch after another until no check waits.
func (l *nodeQueue) fly(c *Client, n *node) {
	for {
		items := l.take()
		if len(items) == 0 {
			return
		}
		results := n.call(c, items)
		for i, it := range items {
			it.done <- results[i]
		}
	}
}

// take removes the next batch from the waiting checks. An empty batch ends the flight.
func (l *nodeQueue) take() []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, count := 0, 0
	for count < len(l.waiting) && count < checksMost {
		bytes += proto.Size(l.waiting[count].request) + 8
		if count > 0 && bytes > bytesMost {
			break
		}
		count++
	}
	items := l.waiting[:count:count]
	l.waiting = l.waiting[count:]
	if count == 0 {
		l.waiting = nil
		l.flights--
	}
	return items
}

// notSent is the result of a check that was not sent before ctx was over.
func notSent(ctx context.Context) *stintv1.Result {
	if errors.Is(ctx.Err(), context.Canceled) {
		return failure(connect.CodeCanceled, "the caller canceled before the check was sent; nothing was counted",
			false)
	}
	return failure(connect.CodeDeadlineExceeded, "the time was over before the check was sent; nothing was counted",
		false)
}

func failure(code connect.Code, message string, maybeApplied bool) *stintv1.Result {
	return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: &stintv1.Failure{
		Code: code.String(), Message: message, MaybeApplied: maybeApplied}}}
}
