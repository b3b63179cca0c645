package load

import (
	"context"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// grpcClient is one caller on an HTTP/2 connection that it shares with others.
type grpcClient struct {
	conn          *grpc.ClientConn
	codec         wireCodec
	timeout       time.Duration
	message, body []byte
}

// dialGRPC opens the shared connections.
func dialGRPC(target *url.URL, connections int) ([]*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if target.Scheme == "https" {
		secure = credentials.NewTLS(nil)
	}
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		// Each connection must be one of its own, so each has its own resolver: passthrough dials what it is given.
		conn, err := grpc.NewClient("passthrough:///"+hostPort(target, "80"),
			grpc.WithTransportCredentials(secure), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
			grpc.WithDisableServiceConfig(), grpc.WithDisableRetry())
		if err != nil {
			return nil, err
		}
		conns[i] = conn
	}
	return conns, nil
}

func (g *grpcClient) check(keys []uint32, fates []fate) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	g.message = g.codec.appendBody(g.message[:0], keys)
	method := "/stint.v1.LimitService/Check"
	if len(keys) > 1 {
		method = "/stint.v1.LimitService/CheckBatch"
	}
	if err := g.conn.Invoke(ctx, method, &g.message, &g.body); err != nil {
		g.message = nil // the transport may still hold it
		return grpcError(err)
	}
	return g.codec.readFates(g.body, fates)
}

// close leaves the shared connection to its owner.
func (g *grpcClient) close() {}

// grpcError gives a gRPC status Connect's name. "unavailable" is what grpc-go says of a connection that broke, too:
// then the call may have been counted, unless the server said otherwise with details.
func grpcError(err error) *callError {
	s := status.Convert(err)
	name, ok := codeNames[s.Code()]
	if !ok {
		name = "unknown"
	}
	lost := s.Code() == codes.Unavailable && len(s.Proto().GetDetails()) == 0
	return refused(name, s.Message(), lost)
}

var codeNames = map[codes.Code]string{
	codes.InvalidArgument: "invalid_argument", codes.NotFound: "not_found", codes.AlreadyExists: "already_exists",
	codes.PermissionDenied: "permission_denied", codes.ResourceExhausted: "resource_exhausted",
	codes.FailedPrecondition: "failed_precondition", codes.Aborted: "aborted", codes.Unimplemented: "unimplemented",
	codes.Internal: "internal", codes.Unavailable: "unavailable", codes.Unauthenticated: "unauthenticated",
	codes.DeadlineExceeded: "deadline_exceeded", codes.Canceled: "canceled",
}

// rawBytes lets grpc-go carry messages that are encoded already.
type rawBytes struct{}

// Name says which encoding the bytes are in.
func (rawBytes) Name() string { return "proto" }

// Marshal lends a *[]byte to the transport. Once the call was answered, all of it was sent.
func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal copies the answer into a *[]byte, reusing its room.
func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	body := v.(*[]byte)
	*body = append((*body)[:0], make([]byte, data.Len())...)
	data.CopyTo(*body)
	return nil
}
