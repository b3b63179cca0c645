package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

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
