package client

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

const (
	flightsMost = 2         // calls under way to one node: one is decided, one is on its way
	checksMost  = 1000      // in one call, as the server has it
	bytesMost   = 900 << 10 // likewise; the server takes 1 MiB
	callWithin  = 10 * time.Second
)

// lane gathers the checks for one node: whatever waits when a call may begin goes into it, so that calls grow with the
// load and nobody waits for a timer. Its mutex guards all of it.
type lane struct {
	mu      sync.Mutex
	waiting []*item
	flights int
}

// item is one check on its way.
type item struct {
	request *stintv1.CheckRequest
	ctx     context.Context
	done    chan *stintv1.Result // has room for the one result
}

// do has one check decided by the lane's node.
func (l *lane) do(ctx context.Context, c *Client, n *node, r *stintv1.CheckRequest) *stintv1.Result {
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
		return failure(connect.CodeDeadlineExceeded, "the time was over before the check was sent; nothing was counted", false)
	}
	select {
	case result := <-it.done:
		return result
	default:
		return failure(connect.CodeAborted, "no answer in time: the check may have been counted", true)
	}
}

// begin flies in the background. A client that is closed begins nothing.
func (l *lane) begin(c *Client, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.refuse()
		return
	}
	c.goroutines.Go(func() { l.fly(c, n) })
}

func (l *lane) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights--
	for _, it := range l.waiting {
		it.done <- failure(connect.CodeCanceled, "the client is closed; nothing was counted", false)
	}
	l.waiting = nil
}

// withdraw takes out what has not been sent.
func (l *lane) withdraw(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == it {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// fly makes one call after the other until nothing waits.
func (l *lane) fly(c *Client, n *node) {
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

// take gives what goes next. Nothing: then the flight is over.
func (l *lane) take() []*item {
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

// call asks the node for all items together. It returns one result for each.
func (n *node) call(c *Client, items []*item) []*stintv1.Result {
	ctx, cancel := context.WithTimeout(c.closing, longest(items))
	defer cancel()
	batch := &stintv1.CheckBatchRequest{Checks: make([]*stintv1.CheckRequest, len(items))}
	for i, it := range items {
		batch.Checks[i] = it.request
	}
	response, err := n.limits.CheckBatch(ctx, connect.NewRequest(batch))
	if err == nil && len(response.Msg.Results) == len(items) {
		return response.Msg.Results
	}
	why := failure(connect.CodeInternal, "the node answered another number of checks than it was asked", true)
	if err != nil {
		e := failed(err)
		if e.unreached {
			c.owners.unreached(n.url)
		}
		why.GetFailure().Code, why.GetFailure().Message, why.GetFailure().MaybeApplied = e.Code, e.Message, e.MaybeApplied
	}
	results := make([]*stintv1.Result, len(items))
	for i := range results {
		results[i] = why
	}
	return results
}

// longest is the time of the item that has most.
func longest(items []*item) time.Duration {
	var most time.Duration
	for _, it := range items {
		deadline, bounded := it.ctx.Deadline()
		if !bounded {
			return callWithin
		}
		most = max(most, time.Until(deadline))
	}
	return min(max(most, time.Millisecond), callWithin)
}

func failure(code connect.Code, message string, maybeApplied bool) *stintv1.Result {
	return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: &stintv1.Failure{
		Code: code.String(), Message: message, MaybeApplied: maybeApplied}}}
}
