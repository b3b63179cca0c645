package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// halfReadable is a server that cannot read two bills, on two pages.
type halfReadable struct {
	stintv1connect.UnimplementedObserveServiceHandler
}

func (halfReadable) ListUsage(
	_ context.Context, r *connect.Request[stintv1.ListUsageRequest],
) (*connect.Response[stintv1.ListUsageResponse], error) {
	page := &stintv1.ListUsageResponse{NextPageToken: "more",
		Unreadable: []*stintv1.UnreadableUsage{{Policy: "plan", Key: "customer:lost"}}}
	if r.Msg.PageToken == "more" {
		page = &stintv1.ListUsageResponse{CompleteThrough: timestamppb.Now(),
			Records: []*stintv1.UsageRecord{{Policy: "plan", Key: "customer:read", Start: timestamppb.Now(),
				End: timestamppb.Now()}},
			Unreadable: []*stintv1.UnreadableUsage{{Policy: "plan", Key: "customer:gone"}}}
	}
	return connect.NewResponse(page), nil
}

// A program that bills from a list learns that it is incomplete, and what is missing: from the exit code too, in every
// form.
func TestUsageNamesTheBillsThatCannotBeRead(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewObserveServiceHandler(halfReadable{}))
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, form := range []string{"table", "csv", "json"} {
		code, stdout, stderr := stint("usage", "-o", form, "--addr", server.URL)
		if code != 1 || !strings.Contains(stdout, "customer:read") {
			t.Errorf("%s: status %d, %q", form, code, stdout)
		}
		for _, want := range []string{`key "customer:lost" under policy "plan" cannot be read`,
			`key "customer:gone" under policy "plan" cannot be read`, "complete through", "2 bills cannot be read"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %q is not in %q", form, want, stderr)
			}
		}
	}
}
