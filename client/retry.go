package client

import (
	"cmp"
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/sleep"
)

// repeat sends a request until it is answered, its time is over, or a retry would be unsafe or useless. The first key
// of r selects the node to ask; nil means any. countsOnce means that sending the request twice counts it once. The
// context of send bounds the call.
func (c *Client) repeat(
	ctx context.Context, r *stintv1.CheckRequest, countsOnce bool, send func(context.Context, *node) *Error,
) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	maybeApplied := false // by an earlier attempt, regardless of later ones
	first := int(c.owners.first.Load())
	for attempt := 0; ; attempt++ {
		n, failure := c.route(r, first+attempt)
		if failure == nil {
			failure = send(ctx, n)
		}
		if failure == nil {
			return nil
		}
		if failure.unreached {
			c.owners.unreached(n.url)
		}
		if failure.MaybeApplied { //mutant:short-calls-meet-a-silent-node
			c.pass(n.url)
		}
		again := failure.mayAskAgain(countsOnce)
		if maybeApplied && !failure.MaybeApplied {
			failure = &Error{Code: connect.CodeAborted.String(), MaybeApplied: true,
				Message: "an earlier attempt may have been counted; " +
					"the last one: " + failure.Code + ": " + failure.Message}
		}
		maybeApplied = failure.MaybeApplied
		if !again || !wait(ctx, attempt) {
			return failure
		}
		c.owners.ask()
	}
}

// call sends a request in a call of its own, with the retries of repeat.
func call[Req, Res any](
	ctx context.Context, c *Client, key *stintv1.CheckRequest, countsOnce bool,
	method func(*node, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), r *Req,
) (answer *Res, err error) {
	err = c.repeat(ctx, key, countsOnce, func(ctx context.Context, n *node) *Error {
		response, err := method(n, ctx, connect.NewRequest(r))
		if err != nil {
			//mutant:unwritable-call-may-be-counted
			return cmp.Or(unwritable(any(r).(proto.Message), err), failed(err))
		}
		answer = response.Msg
		return nil
	})
	return answer, err
}

// wait pauses before the next attempt. It returns false if ctx ends first.
func wait(ctx context.Context, attempt int) bool {
	return sleep.For(ctx, min(pauseLeast<<min(attempt, 8), pauseMost))
}

const (
	pauseLeast = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)
