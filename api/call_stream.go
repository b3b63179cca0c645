package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// streamer serves a procedure that answers one message with several.
type streamer[Req, Res any, P pointer[Req]] func(ctx context.Context, c *call[Req, P], send func(*Res) error) error

// connect serves the procedure through connect.
func (serve streamer[Req, Res, P]) connect(
	ctx context.Context, r *connect.Request[call[Req, P]], stream *connect.ServerStream[Res],
) error {
	x := exchangeOf(ctx)
	if err := x.beginStream(); err != nil {
		return streamError(err)
	}
	return streamError(serve(ctx, r.Msg, func(m *Res) error {
		return x.sendOne(func() error { return stream.Send(m) })
	}))
}

// grpc serves the procedure through grpc-go.
func (serve streamer[Req, Res, P]) grpc(_ any, stream grpc.ServerStream) error {
	var c call[Req, P]
	if err := stream.RecvMsg(&c); err != nil {
		return err // grpc-go has already answered
	}
	return streamErrorGRPC(stream, serve(stream.Context(), &c, func(m *Res) error { return stream.SendMsg(m) }))
}

// streamError gives the error of a stream its code, if it is one of ours.
func streamError(err error) error {
	if isOwnError(err) {
		return codedError(err)
	}
	return err
}

// streamErrorGRPC is streamError for grpc-go.
func streamErrorGRPC(stream grpc.ServerStream, err error) error {
	if isOwnError(err) {
		return grpcError(stream, codedError(err))
	}
	return err
}

// isOwnError reports whether an error is this package's and has no code yet. The libraries' errors concern clients that
// have gone, or malformed messages.
func isOwnError(err error) bool {
	var failure *shard.Error
	var refusal *auth.Refusal
	return errors.As(err, &failure) || errors.As(err, &refusal) || errors.Is(err, context.DeadlineExceeded)
}
