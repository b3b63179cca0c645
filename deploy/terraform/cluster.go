package main

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// cluster is what resources call.
type cluster struct {
	policies stintv1connect.PolicyServiceClient
	observe  stintv1connect.ObserveServiceClient
	tokens   stintv1connect.TokenServiceClient
	sinks    stintv1connect.SinkServiceClient
}

// callWithin bounds each call.
const callWithin = 30 * time.Second

// bearer adds a token to each request, if there is one. Configure has checked that the address is safe for it.
type bearer struct {
	token string
	base  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.base.RoundTrip(r)
}

// call makes a call without its envelope.
func call[Q, A any](
	ctx context.Context, method func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q,
) (*A, error) {
	answer, err := method(ctx, connect.NewRequest(q))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}
