package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/stint-io/stint/shard"
)

// messageBytesRefused is the size of a message that grpc-go refuses by itself, and with resource_exhausted, which is not
// ours to change. What is between bodyBytesMax and this is read and refused as it is at the other door.
const messageBytesRefused = 4 << 20

// grpcWorkers is how many goroutines answer one call after the other. Calls beyond get one each, and cost more by what it
// takes to grow its stack.
const grpcWorkers = 256

// NewGRPC makes the server of gRPC alone, by grpc-go: the same procedures, answers and errors as through the API's
// handler, at a fraction of the work for each call. The caller listens, calls its Serve, and ends it with GracefulStop
// after Drain. The bounds are those of NewServer, but for two: a message above 4 MiB is refused with
// resource_exhausted, and an answer that nobody reads ends with its connection.
func NewGRPC(a *API, logger *slog.Logger) *grpc.Server {
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(grpcCodec{}),
		grpc.MaxRecvMsgSize(messageBytesRefused),
		grpc.MaxConcurrentStreams(1024),
		grpc.NumStreamWorkers(grpcWorkers),
		grpc.MaxHeaderListSize(64<<10),
		grpc.ConnectionTimeout(5*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, Time: 30 * time.Second, Timeout: 30 * time.Second}),
		// A client that asks more often than that whether we are there is sent away.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	for _, service := range a.doors.services {
		safe := *service
		safe.Streams = slices.Clone(service.Streams)
		for i := range safe.Streams {
			safe.Streams[i].Handler = recovered(logger, "/"+safe.ServiceName+"/"+safe.Streams[i].StreamName, safe.Streams[i].Handler)
		}
		server.RegisterService(&safe, nil)
	}
	healthpb.RegisterHealthServer(server, grpcHealth{health: a.health})
	reflection.Register(server)
	return server
}

// unaryGRPC answers a procedure of one message. What the call takes of the room it has until grpc-go has its answer.
func unaryGRPC[Req, Res any, P pointer[Req]](
	d *doors, procedure string, answer func(context.Context, P) (*Res, error),
) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		var c call[Req, P]
		if err := stream.RecvMsg(&c); err != nil {
			return err // it is answered already
		}
		begun, x := time.Now(), &exchange{room: d.room}
		defer x.end()
		ctx, cancel := d.edge.bounded(x.within(stream.Context()))
		defer cancel()
		response, err := answerInTime(ctx, &c, answer)
		if coded := d.edge.told(procedure, begun, err); coded != nil {
			return grpcError(stream, coded)
		}
		return stream.SendMsg(response)
	}
}

// answerInTime begins no call that is over, as connect does.
func answerInTime[Req, Res any, P pointer[Req]](
	ctx context.Context, c *call[Req, P], answer func(context.Context, P) (*Res, error),
) (*Res, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return admitted(ctx, c, answer)
}

// grpcError is an error as grpc-go wants it. The wait of an unavailable is in a trailer, too.
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

// recovered ends a call that panics, and nothing else: as net/http does. Nobody knows whether it was counted.
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

// grpcCodec carries binary messages, and calls in the place of requests. Of a call that cannot be read it makes one with
// a fault: an error of its own would be answered "internal".
type grpcCodec struct{}

// Name implements encoding.CodecV2.
func (grpcCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2. The transport gives the memory back.
func (grpcCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	space := laneBuffers.Get().(*[]byte)
	defer keepLaneBuffer(space)
	var err error
	if *space, err = marshalProto((*space)[:0], m); err != nil {
		return nil, err
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(len(*space)) // which is known only now, and a buffer that grew would be lost to the pool
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

// readGRPC refuses what is larger than the other door lets in.
func readGRPC(data []byte, m proto.Message) error {
	if len(data) > bodyBytesMax {
		return errTooLarge
	}
	return proto.Unmarshal(data, m)
}

// grpcHealth answers gRPC's health checks through grpc-go.
type grpcHealth struct {
	healthpb.UnimplementedHealthServer
	health health
}

// Check implements healthpb.HealthServer.
func (h grpcHealth) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	response, err := h.health.Check(ctx, &grpchealth.CheckRequest{Service: r.GetService()})
	if err != nil {
		var coded *connect.Error
		if !errors.As(err, &coded) {
			return nil, err
		}
		return nil, status.Error(codes.Code(coded.Code()), coded.Message())
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_ServingStatus(response.Status)}, nil
}
