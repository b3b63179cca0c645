package bench

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// apiCaller is one caller of the API. When a node refuses connections, it goes on to the next one.
type apiCaller struct {
	api *API
	at  int // of the current client, modulo their number

	// Protocol stream: a call is a message and its answer, so only more callers put more calls in flight.
	stream *connect.BidiStreamForClient[stintv1.CheckBatchRequest, stintv1.CheckBatchResponse]
	end    context.CancelFunc // of the stream
}

// Check implements Caller.
func (c *apiCaller) Check(keys []uint32, fates []Fate) *Failure {
	requests := make([]*stintv1.CheckRequest, len(keys))
	for i, key := range keys {
		requests[i] = c.api.plan.request(key)
	}
	results, err := c.ask(requests)
	if err == nil && len(results) != len(keys) {
		err = fmt.Errorf("%d results for %d checks", len(results), len(keys))
	}
	if err != nil {
		failure, fate := FailureOf(err)
		for i := range fates {
			fates[i] = fate
		}
		return failure
	}
	var first *Failure
	for i, result := range results {
		f := result.GetFailure()
		switch {
		case f != nil:
			fates[i] = fateOf(f.MaybeApplied)
			if first == nil {
				first = &Failure{f.Code, f.Message}
			}
		case result.GetDecision().GetAllowed():
			fates[i] = Allowed
		default:
			fates[i] = Denied
		}
	}
	return first
}

// ask sends one call.
func (c *apiCaller) ask(requests []*stintv1.CheckRequest) ([]*stintv1.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.api.plan.Timeout)
	defer cancel()
	if c.api.shared != nil {
		if len(requests) > 1 {
			return c.api.shared.CheckBatch(ctx, requests), nil
		}
		return one(c.api.shared.Check(ctx, requests[0]))
	}
	var (
		results []*stintv1.Result
		err     error
	)
	for range c.api.loaded {
		switch {
		case c.api.plan.Protocol == Stream:
			results, err = c.send(ctx, requests)
		case len(requests) > 1:
			results, err = c.checkBatch(ctx, requests)
		default:
			results, err = c.check(ctx, requests[0])
		}
		if !NeverSent(err) {
			break
		}
		c.at++
	}
	return results, err
}

// one makes the results of a call with one check.
func one(d *stintv1.Decision, err error) ([]*stintv1.Result, error) {
	return []*stintv1.Result{{Result: &stintv1.Result_Decision{Decision: d}}}, err
}

func (c *apiCaller) check(ctx context.Context, request *stintv1.CheckRequest) ([]*stintv1.Result, error) {
	answer, err := c.api.loaded[c.at%len(c.api.loaded)].Check(ctx, connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return one(answer.Msg.Decision, nil)
}

func (c *apiCaller) checkBatch(ctx context.Context, requests []*stintv1.CheckRequest) ([]*stintv1.Result, error) {
	request := &stintv1.CheckBatchRequest{Checks: requests}
	answer, err := c.api.loaded[c.at%len(c.api.loaded)].CheckBatch(ctx, connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return answer.Msg.Results, nil
}

// send asks through the caller's stream, which it opens if there is none, and ends after an error.
func (c *apiCaller) send(ctx context.Context, requests []*stintv1.CheckRequest) (results []*stintv1.Result, err error) {
	if c.stream == nil {
		life, end := context.WithCancel(context.Background())
		c.stream, c.end = c.api.loaded[c.at%len(c.api.loaded)].CheckStream(life), end
	}
	stop := context.AfterFunc(ctx, c.end)
	defer stop()
	// If Send reports that the stream has ended, Receive has the reason.
	_ = c.stream.Send(&stintv1.CheckBatchRequest{Checks: requests})
	answer, err := c.stream.Receive()
	if err != nil {
		c.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return answer.Results, nil
}

// Close implements Caller.
func (c *apiCaller) Close() {
	if c.stream != nil {
		_ = c.stream.CloseRequest() // else the transport goes on waiting for another message, and the server too
		c.end()
		c.stream = nil
	}
}
