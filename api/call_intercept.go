package api

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// interceptors wraps every call: it sets a missing deadline, gives an error its code, and informs the observer.
type interceptors struct {
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
		if coded := e.told(r.Spec().Procedure, begun, err); coded != nil {
			return nil, coded
		}
		return response, nil
	}
}

// bounded sets a deadline on a call that has none.
func (e interceptors) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, e.timeout)
}

// told informs the observer of a call's end and returns the error with its code; nil: there is no error.
func (e interceptors) told(procedure string, begun time.Time, err error) *connect.Error {
	if err == nil {
		e.observer.Request(procedure, "ok", time.Since(begun))
		return nil
	}
	coded := codedError(err)
	e.observer.Request(procedure, coded.Code().String(), time.Since(begun))
	return coded
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
