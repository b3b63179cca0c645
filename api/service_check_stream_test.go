package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// openStream opens a CheckStream as grpc-go's client does.
func openStream(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		stintv1connect.LimitServiceCheckStreamProcedure)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// batchWith returns a batch of checks of these keys; the first check costs n.
func batchWith(n int, keys ...string) *stintv1.CheckBatchRequest {
	m := &stintv1.CheckBatchRequest{}
	for i, key := range keys {
		entry := &stintv1.Entry{Policy: "per-ip", Key: key}
		if i == 0 {
			cost := uint64(n)
			entry.Cost = &cost
		}
		m.Checks = append(m.Checks, &stintv1.CheckRequest{Entries: []*stintv1.Entry{entry}})
	}
	return m
}

func send(t *testing.T, stream grpc.ClientStream, m *stintv1.CheckBatchRequest) {
	t.Helper()
	if err := stream.SendMsg(m); err != nil {
		t.Fatal(err)
	}
}

// answered returns the cost of the first check of the next answer.
func answered(stream grpc.ClientStream) (int, error) {
	var m stintv1.CheckBatchResponse
	if err := stream.RecvMsg(&m); err != nil {
		return 0, err
	}
	return int(m.Results[0].GetDecision().GetLimits()[0].GetUsed()), nil
}

// barrier holds back the decisions on keys until they are released.
type barrier struct {
	held map[string]chan struct{}
	came chan string
}

func newBarrier(keys ...string) *barrier {
	g := &barrier{held: map[string]chan struct{}{}, came: make(chan string, 1000)}
	for _, key := range keys {
		g.held[key] = make(chan struct{})
	}
	return g
}

type gatedDecider struct{ *barrier }

func (g gatedDecider) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i, r := range requests {
		g.came <- r.Entries[0].Key
		if held := g.held[r.Entries[0].Key]; held != nil {
			select {
			case <-held:
			case <-ctx.Done():
				results[i] = shard.Result{Err: &shard.Error{Code: shard.UnknownOutcome, Message: "late"}}
				continue
			}
		}
		results[i] = allow(r)
	}
	return results
}

// gated holds back the world's decisions on these keys.
func (w *world) gated(keys ...string) *barrier {
	g := newBarrier(keys...)
	w.decider.instead = gatedDecider{g}
	return g
}

func TestAStreamAnswersInOrder(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		g := w.gated("slow")
		stream := openStream(t, conn)
		send(t, stream, batchWith(1, "slow", "b"))
		send(t, stream, batchWith(2, "c"))
		send(t, stream, batchWith(3, "d", "e"))
		for came := []string{}; len(came) < 4; { // all are decided while the first one waits
			came = append(came, <-g.came)
		}
		close(g.held["slow"])
		for want := 1; want <= 3; want++ {
			if got, err := answered(stream); got != want || err != nil {
				t.Fatalf("answer %d: of batch %d, %v", want, got, err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := answered(stream); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		if seen := w.observer.seen(); !slices.Contains(seen, "request CheckStream ok") {
			t.Errorf("observed %q", seen)
		}
	})
}

func TestAStreamHasFewBatchesUnderWay(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		const batches = 3 * batchesAtOnce
		key := func(n int) string { return fmt.Sprint("slow ", n) }
		keys := make([]string, batches)
		for i := range keys {
			keys[i] = key(i + 1)
		}
		g := w.gated(keys...)
		stream := openStream(t, conn)
		for n := 1; n <= batches; n++ {
			send(t, stream, batchWith(n, key(n)))
		}
		began := 0
		for want := 1; want <= batches; want++ { // each one that is decided makes room for one more
			for most := min(want-1+batchesAtOnce, batches); began < most || len(g.came) > 0; began++ {
				if <-g.came; began >= most {
					t.Errorf("one batch too many is under way, beside %d", batchesAtOnce)
				}
			}
			close(g.held[key(want)])
			if got, err := answered(stream); got != want || err != nil {
				t.Fatalf("answer %d: of batch %d, %v", want, got, err)
			}
		}
	})
}

// A batch that CheckBatch would refuse ends the stream with that error, after the answers to earlier batches.
func TestAWrongBatchEndsAStream(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		g := w.gated("slow")
		stream := openStream(t, conn)
		send(t, stream, batchWith(1, "slow"))
		send(t, stream, &stintv1.CheckBatchRequest{})
		send(t, stream, batchWith(3, "behind"))
		<-g.came
		close(g.held["slow"])
		if got, err := answered(stream); got != 1 || err != nil {
			t.Errorf("before it: of batch %d, %v", got, err)
		}
		_, err := answered(stream)
		failure, _ := detailsOf(status.Convert(err))
		if status.Code(err) != codes.InvalidArgument || failure.GetMaybeApplied() ||
			!strings.Contains(failure.GetMessage(), "checks: are missing") {
			t.Errorf("got %v", err)
		}
		if len(g.came) > 0 {
			t.Errorf("%q was decided, behind the end", <-g.came)
		}
	})
}

// A failed check is answered in its place.
func TestAFailedCheckDoesNotEndAStream(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		stream := openStream(t, conn)
		send(t, stream, batchWith(1, "a", ""))
		var m stintv1.CheckBatchResponse
		if err := stream.RecvMsg(&m); err != nil {
			t.Fatal(err)
		}
		if m.Results[0].GetDecision() == nil || m.Results[1].GetFailure().GetCode() != "invalid_argument" {
			t.Errorf("got %v", &m)
		}
	})
}

// When the node stops, batches that were read are answered, and others are not counted.
func TestDrainEndsStreams(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		g := w.gated("slow")
		stream, idle := openStream(t, conn), openStream(t, conn)
		send(t, stream, batchWith(1, "slow"))
		send(t, idle, batchWith(1, "quick"))
		if _, err := answered(idle); err != nil {
			t.Fatal(err)
		}
		for <-g.came != "slow" {
		}
		w.api.Drain()
		unavailable(t, idle, "an idle stream")
		close(g.held["slow"])
		if got, err := answered(stream); got != 1 || err != nil {
			t.Errorf("a batch under way: of batch %d, %v", got, err)
		}
		unavailable(t, stream, "behind it")
		late := openStream(t, conn)
		late.SendMsg(batchWith(9, "late"))
		unavailable(t, late, "a new stream")
		w.api.Wait()
		if err := invokeCheck(t.Context(), conn, aCheck()); err != nil {
			t.Errorf("a call of one message: %v", err)
		}
	})
}

func unavailable(t *testing.T, stream grpc.ClientStream, what string) {
	t.Helper()
	_, err := answered(stream)
	failure, delay := detailsOf(status.Convert(err))
	if status.Code(err) != codes.Unavailable || failure == nil || failure.MaybeApplied ||
		delay != 100*time.Millisecond {
		t.Errorf("%s: %v, %v", what, err, delay)
	}
}

// A client that disconnects leaves nothing behind.
func TestAClientThatLeavesItsStream(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		g := w.gated("never")
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			stintv1connect.LimitServiceCheckStreamProcedure)
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, batchWith(1, "never"))
		<-g.came
		cancel()
		w.api.Wait()
		await.Until(t, "no entry is under way", func() bool { return w.api.registry.gate.admission.taken.Load() == 0 })
	})
}

func TestManyBatchesThroughAStream(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		const batches, checks = 200, 50
		w.decider.instead = quickDecider{}
		stream := openStream(t, conn)
		keys := make([]string, checks)
		for i := range keys {
			keys[i] = fmt.Sprintf("key-%d", i)
		}
		sent := make(chan error, 1)
		go func() {
			for n := range batches {
				if err := stream.SendMsg(batchWith(1+n%90, keys...)); err != nil {
					sent <- err
					return
				}
			}
			sent <- stream.CloseSend()
		}()
		for n := range batches {
			if got, err := answered(stream); got != 1+n%90 || err != nil {
				t.Fatalf("answer %d: %d, %v", n, got, err)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}
