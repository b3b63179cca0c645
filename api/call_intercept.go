package api

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// interceptors wraps every call: it sets a missing deadline, gives an error its code, and informs the observer.
type interceptors struct {
	follower
	observer Observer
	timeout  time.Duration
}

// wrap implements connect.UnaryInterceptorFunc.
func (e interceptors) wrap(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		begun := time.Now()
		ctx, cancel := e.bounded(ctx)
		defer cancel()
		response, err := next(ctx, r)
		if coded := e.told(ctx, ending{procedure: r.Spec().Procedure, system: systemOf(r.Peer()), begun: begun, asked: askedOf(r.Any()), err: err}); coded != nil {
			return nil, coded
		}
		return response, nil
	}
}

// bounded sets a deadline on a call whose client set none.
func (e interceptors) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		if l, limited := ctx.Value(limitedKey{}).(*limitedCall); !limited || !l.unasked {
			return ctx, func() {}
		}
	}
	return context.WithTimeout(ctx, e.timeout)
}

// told informs the observer, traces and the log of a call's end, and returns the error with its code; nil: there is no error.
func (e interceptors) told(ctx context.Context, end ending) (coded *connect.Error) {
	end.code = "ok"
	if end.err != nil {
		coded = codedError(end.err)
		end.code = coded.Code().String()
	}
	end.took = time.Since(end.begun)
	e.observer.Request(end.procedure, end.code, end.took, e.ended(ctx, end))
	return coded
}

// askedOf returns the message of a call through connect.
func askedOf(received any) any {
	if c, ok := received.(reader); ok {
		return c.asked()
	}
	return nil
}

// readOnly marks a procedure that may be called with HTTP GET.
var readOnly = connect.WithIdempotency(connect.IdempotencyNoSideEffects)

// plain removes the prefix of the protobuf library's errors and shortens the text. The space in that prefix is one of two
// characters, chosen at random for each build of a program.
func plain(err error) string {
	const most = 300
	text := strings.TrimPrefix(err.Error(), "proto:")
	return shortened(strings.TrimLeft(text, " \u00a0"), most)
}
