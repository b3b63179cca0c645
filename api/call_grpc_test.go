package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

func invokeCheck(
	ctx context.Context, conn *grpc.ClientConn, m *stintv1.CheckRequest, options ...grpc.CallOption,
) error {
	return conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, m, &stintv1.CheckResponse{}, options...)
}

// An error is the same through both doors.
func TestErrorsOfGRPC(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		for _, c := range []struct {
			failure      shard.Error
			code         codes.Code
			maybeApplied bool
			retryAfter   string
			retryDelay   time.Duration
		}{
			{shard.Error{Code: shard.Invalid, Field: "entries[0].tier"}, codes.InvalidArgument, false, "", 0},
			{shard.Error{Code: shard.PolicyNotFound}, codes.NotFound, false, "", 0},
			{shard.Error{Code: shard.IDReused}, codes.AlreadyExists, false, "", 0},
			{shard.Error{Code: shard.Overloaded, RetryAfter: 2_000_001}, codes.Unavailable, false, "3",
				2_000_001 * time.Microsecond},
			{shard.Error{Code: shard.Draining}, codes.Unavailable, false, "1", 100 * time.Millisecond},
			{shard.Error{Code: shard.UnknownOutcome}, codes.Aborted, true, "", 0},
			{shard.Error{Code: 200}, codes.Internal, true, "", 0},
		} {
			c.failure.Message = "something failed"
			w.decider.decide = fail(&c.failure)
			var trailer metadata.MD
			s := status.Convert(invokeCheck(t.Context(), conn, aCheck(), grpc.Trailer(&trailer)))
			if s.Code() != c.code || s.Message() != c.failure.Error() {
				t.Errorf("shard code %d: %v %q", c.failure.Code, s.Code(), s.Message())
			}
			failure, delay := detailsOf(s)
			if failure.GetMaybeApplied() != c.maybeApplied || failure.GetMessage() != s.Message() {
				t.Errorf("shard code %d: %v", c.failure.Code, failure)
			}
			if got := strings.Join(trailer.Get("retry-after"), ","); got != c.retryAfter || delay != c.retryDelay {
				t.Errorf("shard code %d: retry-after %q, RetryInfo %v", c.failure.Code, got, delay)
			}
			if seen := w.observer.seen(); !slices.Contains(seen, "request Check "+failure.GetCode()) {
				t.Errorf("shard code %d: observed %q", c.failure.Code, seen)
			}
		}
	})
}

func detailsOf(s *status.Status) (failure *stintv1.Failure, delay time.Duration) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *stintv1.Failure:
			failure = d
		case *errdetails.RetryInfo:
			delay = d.RetryDelay.AsDuration()
		}
	}
	return failure, delay
}

func TestWhatGRPCRefuses(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		big := aCheck()
		big.Entries[0].Key = strings.Repeat("k", bodyBytesMax)
		if err := invokeCheck(t.Context(), conn, big); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "1048576") {
			t.Errorf("too large: %v", err)
		}
		err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, &stintv1.Failure{Message: "\x01"},
			&stintv1.CheckResponse{})
		if failure, _ := detailsOf(status.Convert(err)); status.Code(err) != codes.InvalidArgument ||
			failure.GetCode() != "invalid_argument" {
			t.Errorf("another message: %v", err)
		}
		if n := len(w.decider.requests()); n > 0 {
			t.Errorf("%d requests were decided", n)
		}
	})
}

func TestWhoCallsThroughGRPC(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		adjust := func(ctx context.Context) string {
			m := &stintv1.AdjustRequest{Policy: "per-ip", Key: "k",
				Op: &stintv1.AdjustRequest_Reset_{Reset_: &stintv1.Reset{}}}
			if err := conn.Invoke(ctx, stintv1connect.LimitServiceAdjustProcedure, m,
				&stintv1.AdjustResponse{}); err != nil {
				t.Fatal(err)
			}
			requests := w.decider.requests()
			return requests[len(requests)-1].Adjustment.Actor
		}
		if who := adjust(t.Context()); who != "127.0.0.1" {
			t.Errorf("without a name: %q", who)
		}
		if who := adjust(metadata.AppendToOutgoingContext(t.Context(), "stint-actor", "ann")); who != "ann" {
			t.Errorf("with a name: %q", who)
		}
	})
}

func TestDeadlinesOfGRPC(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, *API) pipes{"connect": servePipes, "grpc-go": serveGRPCPipes} {
		synctest.Test(t, func(t *testing.T) {
			w := ownWorld(t, nil, 3*time.Second)
			conn, left := dialGRPC(t, serve(t, w.api)), timeLeft(w)
			if err := invokeCheck(t.Context(), conn, aCheck()); err != nil || *left != 3*time.Second {
				t.Errorf("%s: a call without a deadline has %v, %v", name, *left, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := invokeCheck(ctx, conn, aCheck()); err != nil || *left != 20*time.Second {
				t.Errorf("%s: a call with 20 s has %v, %v", name, *left, err)
			}
		})
	}
}

// timeLeft returns the time that the last call had left when it was decided, in a synctest bubble.
func timeLeft(w *world) *time.Duration {
	left := new(time.Duration)
	w.decider.waiting = func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		*left = time.Until(deadline)
	}
	return left
}

// A panic ends its call and not the process.
func TestAPanicEndsOneCallOfGRPC(t *testing.T) {
	w := newWorld(t)
	conn := w.dial(w.grpcAddr)
	w.decider.waiting = func(context.Context) { panic("broken") }
	err := invokeCheck(t.Context(), conn, aCheck())
	if failure, _ := detailsOf(status.Convert(err)); status.Code(err) != codes.Aborted || !failure.GetMaybeApplied() {
		t.Errorf("got %v", err)
	}
	w.decider.waiting = nil
	if err := invokeCheck(t.Context(), conn, aCheck()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// Both doors share the room for entries.
func TestDoorsShareTheRoom(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		w.api.registry.gate.admission.taken.Store(entriesUnderWay)
		if err := invokeCheck(t.Context(), conn, aCheck()); status.Code(err) != codes.Unavailable {
			t.Errorf("in a full house: %v", err)
		}
		w.api.registry.gate.admission.taken.Store(0)
		for range 3 {
			if err := invokeCheck(t.Context(), conn, aCheck()); err != nil {
				t.Error(err)
			}
		}
	})
}
