package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// node is one address of the cluster and the checks that wait to be sent to it.
type node struct {
	url string
	stintv1connect.LimitServiceClient
	stintv1connect.PolicyServiceClient
	stintv1connect.ObserveServiceClient
	queue nodeQueue
}

// node returns the node with this base URL, and adds it on first use.
func (c *Client) node(url string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[url]
	if n == nil {
		n = &node{
			url:                  url,
			LimitServiceClient:   stintv1connect.NewLimitServiceClient(c.http, url),
			PolicyServiceClient:  stintv1connect.NewPolicyServiceClient(c.http, url),
			ObserveServiceClient: stintv1connect.NewObserveServiceClient(c.http, url),
		}
		c.nodes[url] = n
	}
	return n
}

// call sends all items in one request and returns one result for each.
func (n *node) call(c *Client, items []*item) []*stintv1.Result {
	ctx, cancel := context.WithTimeout(c.closing, longestTimeLeft(items))
	defer cancel()
	batch := &stintv1.CheckBatchRequest{Checks: make([]*stintv1.CheckRequest, len(items))}
	for i, it := range items {
		batch.Checks[i] = it.request
	}
	response, err := n.CheckBatch(ctx, connect.NewRequest(batch))
	if err == nil && len(response.Msg.Results) == len(items) {
		return response.Msg.Results
	}
	if results := n.callRest(c, items, err); results != nil { //mutant:unwritable-check-fails-its-call
		return results
	}
	why := failure(connect.CodeInternal, "the node answered another number of checks than it was asked", true)
	if err != nil {
		e := failed(err)
		if e.unreached {
			c.owners.unreached(n.url)
		}
		why.GetFailure().Code, why.GetFailure().Message, why.GetFailure().MaybeApplied = e.Code, e.Message,
			e.MaybeApplied
	}
	results := make([]*stintv1.Result, len(items))
	for i := range results {
		results[i] = why
	}
	return results
}

// callRest is call without the items that cannot be written, as one with a key that is no UTF-8: only these fail. It
// returns nil if none of them is why a call of all has failed.
func (n *node) callRest(c *Client, items []*item, err error) []*stintv1.Result {
	results, rest := make([]*stintv1.Result, len(items)), make([]*item, 0, len(items))
	for i, it := range items {
		if e := unwritable(it.request, err); e != nil {
			results[i] = failure(connect.CodeInvalidArgument, e.Message, false)
		} else {
			rest = append(rest, it)
		}
	}
	switch len(rest) {
	case 0:
		return results
	case len(items):
		return nil
	}
	sent := n.call(c, rest)
	for i := range results {
		if results[i] == nil {
			results[i], sent = sent[0], sent[1:]
		}
	}
	return results
}

// longestTimeLeft returns the time left to the item with the latest deadline, between 1 ms and callWithin.
func longestTimeLeft(items []*item) time.Duration {
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
