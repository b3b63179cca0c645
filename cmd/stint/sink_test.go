package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// sinksServer lists sinks.
type sinksServer struct {
	stintv1connect.UnimplementedSinkServiceHandler
	sinks []*stintv1.Sink
}

func (s sinksServer) List(
	context.Context, *connect.Request[stintv1.ListSinksRequest],
) (*connect.Response[stintv1.ListSinksResponse], error) {
	return connect.NewResponse(&stintv1.ListSinksResponse{Sinks: s.sinks}), nil
}

func TestSkippedBillsAreSaidBelowTheSinks(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewSinkServiceHandler(
		sinksServer{sinks: []*stintv1.Sink{{Name: "meter"}, {Name: "money", SkippedBills: 3,
			SkippedNewest: []*stintv1.SkippedBill{{Id: "use_1", Why: "it is money back"}}}}}))
	server := httptest.NewServer(mux)
	defer server.Close()
	code, stdout, stderr := stint("sink", "--addr", server.URL)
	const want = "\nbills that money was not sent and will not be: 3; enter them by hand, " +
		"then stint sink enable money\n" +
		"  use_1: it is money back\n  and 2 older: the nodes' logs name them\n"
	if code != 0 || !strings.HasSuffix(stdout, want) || strings.Contains(stdout, "that meter") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}
