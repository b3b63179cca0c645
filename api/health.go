package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// health reports whether the node can serve, to gRPC health checks and over plain HTTP.
type health struct{ ready func() error }

// Check implements grpchealth.Checker. The service "" stands for the whole process, and "ratelimit" for Envoy's.
func (h health) Check(_ context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	switch r.Service {
	case "", stintv1connect.LimitServiceName, stintv1connect.PolicyServiceName, stintv1connect.ClusterServiceName,
		stintv1connect.ObserveServiceName, envoyServiceName, envoyHealthName, extAuthzServiceName:
	default:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no service is named %q here", r.Service))
	}
	if h.ready() != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

func (h health) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := h.ready(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ready\n")
}

// serviceGRPC answers gRPC's health checks through grpc-go. They need no token, so a connection has a share: as
// streams, calls are bounded before their message is awaited.
func (h health) serviceGRPC() *grpc.ServiceDesc {
	check := func(_ any, stream grpc.ServerStream) error {
		c, _, _ := connectionIn(stream.Context())
		if !c.enter() {
			return status.Error(codes.Unavailable, tooManyOpen)
		}
		defer c.leave()
		return h.checkGRPC(stream)
	}
	watch := func(any, grpc.ServerStream) error {
		return status.Error(codes.Unimplemented, "there is no Watch here: ask Check again")
	}
	return &grpc.ServiceDesc{ServiceName: grpchealth.HealthV1ServiceName, HandlerType: (*any)(nil),
		Metadata: "grpc/health/v1/health.proto",
		Streams: []grpc.StreamDesc{{StreamName: "Check", Handler: check},
			{StreamName: "Watch", Handler: watch, ServerStreams: true}}}
}

func (h health) checkGRPC(stream grpc.ServerStream) error {
	var r healthpb.HealthCheckRequest
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	response, err := h.Check(stream.Context(), &grpchealth.CheckRequest{Service: r.GetService()})
	if err != nil {
		if coded, ok := errors.AsType[*connect.Error](err); ok {
			err = status.Error(codes.Code(coded.Code()), coded.Message())
		}
		return err
	}
	return stream.SendMsg(&healthpb.HealthCheckResponse{
		Status: healthpb.HealthCheckResponse_ServingStatus(response.Status)})
}
