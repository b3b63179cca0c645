package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/testing/await"
)

// serveGRPCPipes serves an API behind grpc-go's door, in a synctest bubble.
func serveGRPCPipes(t *testing.T, a *API) pipes {
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	server := NewGRPC(a, auth.Loopback, slog.New(slog.DiscardHandler), nil)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener
}

// dialGRPC connects to a door in memory.
func dialGRPC(t *testing.T, door pipes) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return door.dial(), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// begin begins a call without sending its message.
func begin(t *testing.T, ctx context.Context, conn *grpc.ClientConn, procedure string) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, procedure)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// A call through grpc-go without its message ends, whatever deadline its client has set. A stream of checks may be
// silent.
func TestACallWithoutItsMessageEnds(t *testing.T) {
	for _, procedure := range []string{stintv1connect.LimitServiceCheckProcedure, EnvoyProcedure,
		healthpb.Health_Check_FullMethodName} {
		for _, deadline := range []time.Duration{0, time.Hour, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				stream, began := begin(t, ctx, dialGRPC(t, serveGRPCPipes(t, allowing())), procedure), time.Now()
				err := stream.RecvMsg(&stintv1.CheckResponse{})
				if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took > callWithin ||
					deadline == time.Second && took > deadline {
					t.Errorf("%s with the deadline %v ends after %v: %v", procedure, deadline, took, err)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		stream := begin(t, t.Context(), dialGRPC(t, serveGRPCPipes(t, allowing())),
			stintv1connect.LimitServiceCheckStreamProcedure)
		time.Sleep(time.Hour)
		if err := stream.SendMsg(&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{aCheck()}}); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&stintv1.CheckBatchResponse{}); err != nil {
			t.Error("a stream that was silent for an hour:", err)
		}
	})
}

// A client that leaves ends its streams: nothing of them stays on the server. A bubble does not end before its
// goroutines.
func TestStreamsEndWithTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialGRPC(t, serveGRPCPipes(t, allowing()))
		ctx, leave := context.WithCancel(t.Context())
		const clients = 20 // whether one stayed was a matter of chance
		for range clients {
			stream := begin(t, ctx, conn, stintv1connect.LimitServiceCheckStreamProcedure)
			if err := stream.SendMsg(&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{aCheck()}}); err !=
				nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&stintv1.CheckBatchResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		leave()
		synctest.Wait()
	})
}

// Calls that need no token can be begun and abandoned by any client: a connection has a share of them, on both ports,
// and gets it back.
func TestStrangersCallsWaitInSmallNumbers(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	for _, door := range []string{"connect", "grpc-go"} {
		w := newGuardedWorld(t, k.guard)
		addr := w.grpcAddr
		if door == "connect" {
			addr = w.url[len("http://"):]
		}
		conn := w.dial(addr)
		var ended atomic.Int32
		var streams []grpc.ClientStream
		var hearing sync.WaitGroup
		const others = 10
		for range strangeMost + others {
			stream := begin(t, t.Context(), conn, healthpb.Health_Check_FullMethodName)
			streams = append(streams, stream)
			hearing.Go(func() {
				if err := stream.RecvMsg(&healthpb.HealthCheckResponse{}); status.Code(err) == codes.Unavailable {
					ended.Add(1)
				}
			})
		}
		await.Until(t, door+": those that do not fit are refused", func() bool { return ended.Load() == others })
		for _, stream := range streams {
			stream.CloseSend()
		}
		hearing.Wait()
		if got := ended.Load(); got != others {
			t.Errorf("%s: %d were refused", door, got)
		}
		await.Until(t, door+": there is room again", func() bool {
			_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
			return err == nil
		})
	}
}

// unreadAnswer is an answer that its client leaves unread.
type unreadAnswer struct {
	*httptest.ResponseRecorder
	waiting *atomic.Int32
	read    chan struct{}
}

func (u unreadAnswer) Flush() {
	u.waiting.Add(1)
	<-u.read
}

// A refusal that its client does not read holds a goroutine: only a few do so for one connection, and the others have
// no text.
func TestRefusalsWaitForReadersInSmallNumbers(t *testing.T) {
	conn := &connection{}
	read := make(chan struct{})
	var waiting atomic.Int32
	var refusing sync.WaitGroup
	const others = 10
	answers := make(chan *httptest.ResponseRecorder, strangeMost+others)
	for range strangeMost + others {
		refusing.Go(func() {
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connectionKey{}, conn), "POST",
				"/metrics", nil)
			r.ProtoMajor = 2
			answer := unreadAnswer{httptest.NewRecorder(), &waiting, read}
			turnAway(answer, r, http.StatusUnauthorized, 16, "who are you?")
			answers <- answer.ResponseRecorder
		})
	}
	await.Until(t, "the others have their status", func() bool {
		return len(answers) == others && waiting.Load() == strangeMost
	})
	for range others {
		if a := <-answers; a.Code != http.StatusUnauthorized || a.Body.Len() > 0 {
			t.Errorf("%d %q", a.Code, a.Body)
		}
	}
	close(read)
	refusing.Wait()
	for range strangeMost {
		if a := <-answers; a.Code != http.StatusUnauthorized || a.Body.Len() == 0 {
			t.Errorf("%d %q", a.Code, a.Body)
		}
	}
	if !conn.enter() {
		t.Error("the room is not given back")
	}
}

// A client without a deadline has the server's time limit from the arrival of its message on, as at the other door.
func TestACallWithoutADeadlineHasTheServersFromItsMessageOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, err := withCallTimeout(t.Context(),
			&tap.Info{FullMethodName: stintv1connect.LimitServiceCheckProcedure})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			ctx  context.Context
			most time.Duration
		}{"no deadline": {limited, time.Second}, "none at the other door": {t.Context(), time.Second}} {
			ctx, cancel := (&gatekeeper{timeout: time.Second}).withDeadline(c.ctx)
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > c.most {
				t.Errorf("%s: %v", name, until)
			}
			cancel()
		}
		asked, end := context.WithTimeout(t.Context(), 20*time.Second)
		defer end()
		if ctx, err := withCallTimeout(asked,
			&tap.Info{FullMethodName: stintv1connect.LimitServiceCheckProcedure}); err != nil || ctx != asked {
			t.Errorf("a deadline of a client's is changed: %v", err)
		}
	})
}
