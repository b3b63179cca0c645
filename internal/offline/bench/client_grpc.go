package bench

import (
	"context"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// grpcClient is one caller on HTTP/2 connections that it shares with others.
type grpcClient struct {
	conns         []*grpc.ClientConn
	at            int // index of the current connection
	codec         wireCodec
	timeout       time.Duration
	message, body []byte
}

// dialGRPC opens the shared connections, to each target in turn.
func dialGRPC(targets []*url.URL, p Plan) ([]*grpc.ClientConn, error) {
	connections, config := p.Connections, p.TLS
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		target, secure := targets[i%len(targets)], insecure.NewCredentials()
		if target.Scheme == "https" {
			secure = credentials.NewTLS(config.Clone())
		}
		// Each must be a connection of its own, so each has its own resolver: passthrough dials its given address.
		options := []grpc.DialOption{grpc.WithTransportCredentials(secure), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
			grpc.WithDisableServiceConfig(), grpc.WithDisableRetry()}
		if p.Token != "" {
			options = append(options, grpc.WithPerRPCCredentials(bearer(p.Token)))
		}
		conn, err := grpc.NewClient("passthrough:///"+hostPort(target, portOf(target)), options...)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
	}
	return conns, nil
}

// bearer is a token that goes with every call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. The command line has made sure that nobody else reads
// the token.
func (bearer) RequireTransportSecurity() bool { return false }

func (g *grpcClient) check(keys []uint32, fates []fate) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	g.message = g.codec.appendBody(g.message[:0], keys)
	method := "/stint.v1.LimitService/Check"
	if len(keys) > 1 {
		method = "/stint.v1.LimitService/CheckBatch"
	}
	var err error
	for range g.conns {
		if err = g.conns[g.at].Invoke(ctx, method, &g.message, &g.body); err == nil {
			return g.codec.readFates(g.body, fates)
		}
		if !notDialed(err) {
			break
		}
		g.at = (g.at + 1) % len(g.conns)
	}
	g.message = nil // the transport may still hold it
	return grpcError(err)
}

// notDialed reports whether a connection was refused, so that the call was certainly not sent. grpc-go expresses that only in
// the message.
func notDialed(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && strings.Contains(s.Message(), "while dialing") &&
		strings.Contains(s.Message(), "connection refused")
}

// close does nothing: the shared connections belong to the run.
func (g *grpcClient) close() {}

// grpcError maps a gRPC status to Connect's name. grpc-go also reports a broken connection as "unavailable": then the call
// may have been counted, unless the server's details say otherwise.
func grpcError(err error) *callError {
	s := status.Convert(err)
	name, ok := codeNames[s.Code()]
	if !ok {
		name = "unknown"
	}
	lost := s.Code() == codes.Unavailable && len(s.Proto().GetDetails()) == 0 && !notDialed(err)
	return refused(name, s.Message(), lost)
}

var codeNames = map[codes.Code]string{
	codes.InvalidArgument: "invalid_argument", codes.NotFound: "not_found", codes.AlreadyExists: "already_exists",
	codes.PermissionDenied: "permission_denied", codes.ResourceExhausted: "resource_exhausted",
	codes.FailedPrecondition: "failed_precondition", codes.Aborted: "aborted", codes.Unimplemented: "unimplemented",
	codes.Internal: "internal", codes.Unavailable: "unavailable", codes.Unauthenticated: "unauthenticated",
	codes.DeadlineExceeded: "deadline_exceeded", codes.Canceled: "canceled",
}

// rawBytes makes grpc-go carry messages that are already encoded.
type rawBytes struct{}

// Name returns the encoding of the bytes.
func (rawBytes) Name() string { return "proto" }

// Marshal lends a *[]byte to the transport. Once a call is answered, all of it has been sent.
func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal copies the answer into a *[]byte, reusing its capacity.
func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	body := v.(*[]byte)
	*body = append((*body)[:0], make([]byte, data.Len())...)
	data.CopyTo(*body)
	return nil
}
