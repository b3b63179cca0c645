package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/shard"
)

// messageBytesRefused is the size above which grpc-go itself refuses a message, with resource_exhausted; this package
// cannot change that. A message between bodyBytesMax and this size is read and refused as on the other port.
const messageBytesRefused = 4 << 20

// grpcWorkers is the number of goroutines that each answer one call after another. Calls beyond these get their own
// goroutine and also pay for the growth of its stack.
const grpcWorkers = 256

// GRPCServer is what NewGRPC makes.
type GRPCServer = grpc.Server

// NewGRPC makes the server for gRPC alone, with grpc-go: the same procedures, answers and errors as the API's handler,
// at a fraction of the cost per call. The caller listens, calls its Serve, and ends it with GracefulStop after Drain.
// The bounds are those of NewServer, with two exceptions: a message above 4 MiB is refused with resource_exhausted, and
// an unread answer ends with its connection. port says from where it can be reached; a nil secure means plaintext.
func NewGRPC(a *API, port auth.Port, logger *slog.Logger, secure *tls.Config) *GRPCServer {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(grpcCodec{}),
		grpc.InTapHandle(withCallTimeout),
		grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			if _, ours := a.registry.services[serviceOf(info.FullMethod)]; ours {
				return next(service, stream) // its handlers check the token themselves
			}
			return a.registry.gate.keepOutGRPC(port, info.FullMethod, next)(service, stream)
		}),
		grpc.MaxRecvMsgSize(messageBytesRefused),
		grpc.MaxConcurrentStreams(1024),
		grpc.NumStreamWorkers(grpcWorkers),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(5 * time.Second), // of its handshakes
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, Time: 30 * time.Second, Timeout: 30 * time.Second}),
		// A client that pings more often than MinTime is disconnected.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second,
			PermitWithoutStream: true}),
	}
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	server := grpc.NewServer(append(options, grpc.Creds(provableCredentials{creds}))...)
	for _, service := range a.registry.services {
		safe := *service
		safe.Streams = slices.Clone(service.Streams)
		for i := range safe.Streams {
			// grpc-go does not pass unary calls to a stream interceptor, so each handler is wrapped here.
			procedure := "/" + safe.ServiceName + "/" + safe.Streams[i].StreamName
			//mutant:grpc-go-not-asked 2
			safe.Streams[i].Handler = a.registry.gate.keepOutGRPC(port, procedure,
				recovered(logger, procedure, safe.Streams[i].Handler))
		}
		server.RegisterService(&safe, nil)
	}
	server.RegisterService(a.health.serviceGRPC(), nil)
	reflection.Register(server)
	return server
}

// provableCredentials are credentials with a connInfo as AuthInfo.
type provableCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (p provableCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := p.TransportCredentials.ServerHandshake(raw)
	return c, connInfo{info, &connection{proven: connlimit.Prover(raw)}}, err //mutant:grpc-client-stays-a-stranger
}

// Clone implements credentials.TransportCredentials.
func (p provableCredentials) Clone() credentials.TransportCredentials {
	return provableCredentials{p.TransportCredentials.Clone()}
}

// serviceOf returns the service of a procedure.
func serviceOf(procedure string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	return service
}

// unaryGRPC answers a unary procedure. A call keeps its room until grpc-go has the answer.
func unaryGRPC[Req, Res any, P pointer[Req]](
	d *registry, procedure string, answer func(context.Context, *call[Req, P]) (*Res, error),
) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		var c call[Req, P]
		if err := stream.RecvMsg(&c); err != nil {
			return err // grpc-go has already answered
		}
		response, coded := serve(stream.Context(), d.gate, procedure, &c, answer)
		if coded != nil {
			return grpcError(stream, coded)
		}
		return stream.SendMsg(response)
	}
}

// grpcError translates an error for grpc-go. The wait of an unavailable error is also in a trailer.
func grpcError(stream grpc.ServerStream, coded *connect.Error) error {
	m := &spb.Status{Code: int32(coded.Code()), Message: coded.Message()}
	for _, d := range coded.Details() {
		m.Details = append(m.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	if wait := coded.Meta().Get("Retry-After"); wait != "" {
		stream.SetTrailer(metadata.Pairs("retry-after", wait))
	}
	return status.ErrorProto(m)
}

// recovered turns a panic into the end of its call alone, as net/http does. It is unknown whether the call was counted.
func recovered(logger *slog.Logger, procedure string, next grpc.StreamHandler) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) (err error) {
		defer func() {
			if p := recover(); p != nil {
				logger.Error("a call panicked", "procedure", procedure, "panic", p, "stack", string(debug.Stack()))
				err = grpcError(stream, codedError(&shard.Error{Code: shard.UnknownOutcome,
					Message: "the server failed over this call; it may have been counted"}))
			}
		}()
		return next(service, stream)
	}
}

// grpcCodec carries binary messages, and reads requests into calls. A message that cannot be read becomes a call with a
// fault: grpc-go would answer an error of the codec with "internal".
type grpcCodec struct{}

// Name implements encoding.CodecV2.
func (grpcCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2. The transport gives the memory back to the pool.
func (grpcCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	space := fastPathBuffers.Get().(*[]byte)
	defer keepFastPathBuffer(space)
	var err error
	if *space, err = wire.MarshalProto((*space)[:0], m); err != nil {
		return nil, err
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(len(*space)) // the length is known only now, and a grown buffer would be lost to the pool
	copy(*buffer, *space)
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (grpcCodec) Unmarshal(data mem.BufferSlice, v any) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	switch m := v.(type) {
	case reader:
		m.read(buffer.ReadOnlyData(), readGRPC)
		return nil
	case proto.Message:
		return proto.Unmarshal(buffer.ReadOnlyData(), m)
	}
	return fmt.Errorf("%T is no protobuf message", v)
}

// readGRPC refuses a message that is larger than the other port allows.
func readGRPC(data []byte, m proto.Message) error {
	if len(data) > bodyBytesMax {
		return errTooLarge
	}
	return unmarshalProto(data, m)
}
