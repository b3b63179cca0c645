package node

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

func dialGRPC(t *testing.T, n *Node) *grpc.ClientConn { return dialGRPCAt(t, n, n.GRPCAddr()) }

// dialGRPCAt dials one of the ports of a node that speak gRPC.
func dialGRPCAt(t *testing.T, n *Node, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpcDialer(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func plentyOf(key string) *stintv1.CheckRequest {
	return &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "plenty", Key: key}}}
}

// certain reports whether an error rules out that anything was counted: the server says so, or nothing listened.
func certain(err error) bool {
	s := status.Convert(err)
	if s.Code() != codes.Unavailable {
		return false
	}
	for _, d := range s.Details() {
		if f, ok := d.(*stintv1.Failure); ok {
			return !f.MaybeApplied
		}
	}
	return strings.Contains(s.Message(), "while dialing")
}

// A node that stops answers what came through the gRPC port, in calls and in streams, and refuses the rest with a
// certain error: what was answered is what was counted.
func TestAStopLeavesNoDoubtThroughGRPC(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.GRPCAddr = "127.0.0.1:0"
		n := start(t, config)
		var callers sync.WaitGroup
		var begun sync.WaitGroup
		var called, streamed atomic.Uint64
		begun.Add(3)
		for range 2 {
			conn := dialGRPC(t, n)
			callers.Go(func() {
				for first := true; ; first = false {
					err := conn.Invoke(context.Background(), stintv1connect.LimitServiceCheckProcedure,
						plentyOf("call"), &stintv1.CheckResponse{})
					if first {
						begun.Done()
					}
					if err != nil {
						if !certain(err) {
							t.Errorf("a call: %v", err)
						}
						return
					}
					called.Add(1)
				}
			})
		}
		conn := dialGRPC(t, n)
		stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			stintv1connect.LimitServiceCheckStreamProcedure)
		if err != nil {
			t.Fatal(err)
		}
		callers.Go(func() {
			for stream.SendMsg(&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{plentyOf("stream")}}) == nil {
				breathe()
			}
		})
		callers.Go(func() {
			for first := true; ; first = false {
				err := stream.RecvMsg(&stintv1.CheckBatchResponse{})
				if first {
					begun.Done()
				}
				if err != nil {
					if !certain(err) {
						t.Errorf("the stream: %v", err)
					}
					return
				}
				streamed.Add(1)
			}
		})
		begun.Wait()
		stop(t, n)
		callers.Wait()

		n = start(t, config)
		defer stop(t, n)
		conn = dialGRPC(t, n)
		for key, want := range map[string]uint64{"call": called.Load(), "stream": streamed.Load()} {
			var state stintv1.GetResponse
			if err := conn.Invoke(t.Context(), stintv1connect.LimitServiceGetProcedure,
				&stintv1.GetRequest{Entries: plentyOf(key).Entries}, &state); err != nil {
				t.Fatal(err)
			}
			if used := state.Limits[0].Used; used != want || want == 0 {
				t.Errorf("%s: %d were answered, %d are counted", key, want, used)
			}
		}
	})
}

func TestThePortOfGRPCMustBeFree(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	config.GRPCAddr = "127.0.0.1:0"
	n := start(t, config)
	defer stop(t, n)
	taken := testConfig(t)
	taken.GRPCAddr = n.GRPCAddr()
	if _, err := Start(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "grpc-addr") {
		t.Errorf("got %v", err)
	}
}
