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

// usagePages is a server with these pages of bills, by their tokens.
type usagePages struct {
	stintv1connect.UnimplementedObserveServiceHandler
	pages map[string]*stintv1.ListUsageResponse
}

func (u usagePages) ListUsage(
	_ context.Context, r *connect.Request[stintv1.ListUsageRequest],
) (*connect.Response[stintv1.ListUsageResponse], error) {
	if page := u.pages[r.Msg.PageToken]; page != nil {
		return connect.NewResponse(page), nil
	}
	return nil, connect.NewError(connect.CodeUnavailable, nil)
}

// serve returns the address of the server.
func (u usagePages) serve(t *testing.T) string {
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewObserveServiceHandler(u))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// A program that bills from a list learns that it is incomplete, and what is missing: from the exit code too, in every
// form.
func TestUsageNamesTheBillsThatCannotBeRead(t *testing.T) {
	addr := usagePages{pages: map[string]*stintv1.ListUsageResponse{
		"": {NextPageToken: "more",
			Unreadable: []*stintv1.UnreadableUsage{{Policy: "plan", Key: "customer:lost"}}},
		"more": {CompleteThrough: timestamppb.Now(),
			Records: []*stintv1.UsageRecord{{Policy: "plan", Key: "customer:read", Start: timestamppb.Now(),
				End: timestamppb.Now()}},
			Unreadable: []*stintv1.UnreadableUsage{{Policy: "plan", Key: "customer:gone"}}},
	}}.serve(t)
	for _, form := range []string{"table", "csv", "json"} {
		code, stdout, stderr := stint("usage", "-o", form, "--addr", addr)
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

// A page may be empty and be followed by others, so forget reads them all before it says what is lost.
func TestForgetCountsTheBillsOfAllPages(t *testing.T) {
	records := make([]*stintv1.UsageRecord, 2)
	for i := range records {
		records[i] = &stintv1.UsageRecord{}
	}
	last := &stintv1.ListUsageResponse{Records: records[:1]}
	pages := map[string]*stintv1.ListUsageResponse{"": {NextPageToken: "1"}, "1": {NextPageToken: "2", Records: records},
		"2": last}
	forget := func(want string) {
		t.Helper()
		code, _, stderr := stint("keys", "forget", "user:42", "--bills", "--addr", usagePages{pages: pages}.serve(t))
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("status %d, %q is not in %q", code, want, stderr)
		}
	}
	forget("\n  bills: 3, lost unless they were listed before\n")
	const unknown = "\n  all its bills, and how many is not known: lost unless they were listed before\n"
	last.Unreadable = []*stintv1.UnreadableUsage{{Policy: "plan", Key: "user:42"}}
	forget(unknown)
	delete(pages, "2")
	forget(unknown)
}
