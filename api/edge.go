package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/shard"
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
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, e.timeout)
			defer cancel()
		}
		response, err := next(ctx, r)
		if err == nil {
			e.observer.Request(r.Spec().Procedure, "ok", time.Since(begun))
			return response, nil
		}
		coded := codedError(err)
		e.observer.Request(r.Spec().Procedure, coded.Code().String(), time.Since(begun))
		return nil, coded
	}
}

// unary registers the handler of one procedure.
func unary[Req, Res any, P pointer[Req]](mux *http.ServeMux, e edge, procedure string,
	answer func(context.Context, P) (*Res, error), options ...connect.HandlerOption) {
	mux.Handle(procedure, connect.NewUnaryHandler(procedure,
		func(ctx context.Context, r *connect.Request[call[Req, P]]) (*connect.Response[Res], error) {
			if r.Msg.fault != nil {
				return nil, shard.Invalidf("message", "%s", plain(r.Msg.fault))
			}
			if err := enter(ctx, P(&r.Msg.message)); err != nil {
				return nil, err
			}
			response, err := answer(ctx, &r.Msg.message)
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(response), nil
		},
		append(options, codecs, uncompressed, connect.WithInterceptors(connect.UnaryInterceptorFunc(e.wrap)))...))
}

// readOnly marks a procedure that may be called with HTTP GET.
var readOnly = connect.WithIdempotency(connect.IdempotencyNoSideEffects)

// plain takes away the prefix of the protobuf library's errors. Its blank is one of two, drawn at random for each
// build of a program.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "proto:")
	return strings.TrimLeft(text, " \u00a0")
}
