package api

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// edge is where calls come in and errors go out: it gives a call its deadline, an error its code, and the observer
// its due.
type edge struct {
	observer Observer
	timeout  time.Duration
}

// wrap implements connect.UnaryInterceptorFunc.
func (e edge) wrap(next connect.UnaryFunc) connect.UnaryFunc {
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

// bounded gives a call a deadline that brings none of its own.
func (e edge) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, e.timeout)
}

// told tells the observer how a call has ended, and gives its error a code; nil: it has none.
func (e edge) told(procedure string, begun time.Time, err error) *connect.Error {
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

// plain takes away the prefix of the protobuf library's errors. Its blank is one of two, drawn at random for each
// build of a program.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "proto:")
	return strings.TrimLeft(text, " \u00a0")
}
