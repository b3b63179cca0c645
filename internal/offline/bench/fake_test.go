package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// fakeServer counts in a map. It is exact unless a field makes it wrong.
type fakeServer struct {
	stintv1connect.UnimplementedLimitServiceHandler
	stintv1connect.UnimplementedPolicyServiceHandler

	policy *stintv1.Policy
	quota  uint64
	extra  uint64            // units admitted to each key beyond its quota
	stingy uint64            // units of each key's quota that are never admitted
	fail   func(n int) error // error of the n-th check, from 1
	lose   func(n int) bool  // the answer to the n-th check is lost after it was counted
	stall  time.Duration     // duration of the first check
	drain  bool              // streams end after their first answer

	mu    sync.Mutex
	used  map[string]uint64
	calls int
	hosts map[string]int // calls by the address that received them: a stream is one

	messages int // messages received by streams
}

// calledAt returns the number of calls by address.
func (f *fakeServer) calledAt() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts
}

func (f *fakeServer) noteHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "LimitService") {
			f.mu.Lock()
			f.hosts[r.Host]++
			f.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// oncePerDay is a policy with one limit that gives back no units while a test runs.
func oncePerDay(quota uint64) *stintv1.Policy {
	return &stintv1.Policy{Name: "once", Limits: []*stintv1.Limit{{Name: "day", Quota: &quota,
		Algorithm: &stintv1.Limit_FixedWindow{FixedWindow: &stintv1.FixedWindow{
			Period: durationpb.New(24 * time.Hour), Anchor: stintv1.Anchor_ANCHOR_FIRST_HIT}}}}}
}

func newFake(quota uint64) *fakeServer {
	return &fakeServer{policy: oncePerDay(quota), quota: quota, used: map[string]uint64{}, hosts: map[string]int{}}
}

func (f *fakeServer) List(context.Context, *connect.Request[stintv1.ListPoliciesRequest]) (
	*connect.Response[stintv1.ListPoliciesResponse], error) {
	return connect.NewResponse(&stintv1.ListPoliciesResponse{Policies: []*stintv1.Policy{f.policy}}), nil
}

func (f *fakeServer) decide(check *stintv1.CheckRequest) (*stintv1.Decision, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.mu.Unlock()
	if n == 1 && f.stall > 0 {
		<-time.After(f.stall)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(n); err != nil {
			return nil, err
		}
	}
	entry, cost := check.Entries[0], uint64(1)
	if entry.Cost != nil {
		cost = *entry.Cost
	}
	d := &stintv1.Decision{Limits: []*stintv1.LimitStatus{{Policy: entry.Policy, Limit: "day", Key: entry.Key,
		Quota: f.quota, Allowed: true}}, Reason: `"decision":{"allowed":true}`}
	if f.used[entry.Key]+cost <= f.quota+f.extra-f.stingy {
		for _, e := range check.Entries {
			f.used[e.Key] += cost
		}
		d.Allowed = true
	}
	if f.lose != nil && f.lose(n) {
		return nil, errUnknownOutcome
	}
	return d, nil
}

func (f *fakeServer) Check(_ context.Context, r *connect.Request[stintv1.CheckRequest]) (
	*connect.Response[stintv1.CheckResponse], error) {
	d, err := f.decide(r.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&stintv1.CheckResponse{Decision: d}), nil
}

func (f *fakeServer) CheckBatch(_ context.Context, r *connect.Request[stintv1.CheckBatchRequest]) (
	*connect.Response[stintv1.CheckBatchResponse], error) {
	answer := &stintv1.CheckBatchResponse{}
	for _, check := range r.Msg.Checks {
		result := &stintv1.Result{}
		if d, err := f.decide(check); err != nil {
			result.Result = &stintv1.Result_Failure{Failure: &stintv1.Failure{Code: connect.CodeOf(err).String(),
				Message: err.Error(), MaybeApplied: connect.CodeOf(err) == connect.CodeAborted}}
		} else {
			result.Result = &stintv1.Result_Decision{Decision: d}
		}
		answer.Results = append(answer.Results, result)
	}
	return connect.NewResponse(answer), nil
}

func (f *fakeServer) CheckStream(
	ctx context.Context, stream *connect.BidiStream[stintv1.CheckBatchRequest, stintv1.CheckBatchResponse],
) error {
	for {
		batch, err := stream.Receive()
		if err != nil {
			return nil
		}
		f.mu.Lock()
		f.messages++
		f.mu.Unlock()
		answer, err := f.CheckBatch(ctx, connect.NewRequest(batch))
		if err == nil {
			err = stream.Send(answer.Msg)
		}
		if err != nil {
			return err
		}
		if f.drain {
			return errDraining()
		}
	}
}

// errDraining says, as the real server does, that nothing unanswered was counted.
func errDraining() error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("this node stops"))
	detail, _ := connect.NewErrorDetail(&stintv1.Failure{Code: "unavailable", Message: "this node stops"})
	err.AddDetail(detail)
	return err
}

// start serves HTTP/1.1 and HTTP/2 without TLS on one port, as the real server does.
func (f *fakeServer) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = f.server()
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// startInMemory is start in a bubble. All that is dialed while the test runs is this server.
func (f *fakeServer) startInMemory(t *testing.T) string {
	t.Helper()
	network, usual, server := memnet.New(), http.DefaultTransport, f.server()
	here, there := network.Listen("bench"), network.Listen("server")
	http.DefaultTransport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return here.Dial("server", time.Second)
	}}
	go server.Serve(there)
	t.Cleanup(func() {
		server.Close()
		network.Break("", "") // a port keeps its connections
		http.DefaultTransport = usual
	})
	return "http://memory"
}

func (f *fakeServer) server() *http.Server {
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewLimitServiceHandler(f, connect.WithCodec(defaultsJSON{})))
	mux.Handle(stintv1connect.NewPolicyServiceHandler(f, connect.WithCodec(defaultsJSON{})))
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(w, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %g\n",
			float64(f.calls)*1e-5)
	})
	server := &http.Server{Handler: f.noteHost(mux), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// defaultsJSON writes fields with default values too, as the real server does: "maybeApplied": false.
type defaultsJSON struct{}

func (defaultsJSON) Name() string { return "json" }

func (defaultsJSON) Marshal(message any) ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message.(proto.Message))
}

func (defaultsJSON) Unmarshal(data []byte, message any) error {
	return protojson.Unmarshal(data, message.(proto.Message))
}

var (
	errOverloaded     = connect.NewError(connect.CodeUnavailable, errors.New(`no room for {"user:1"}`))
	errUnknownOutcome = connect.NewError(connect.CodeAborted, errors.New("leadership of shard {3} lost"))
)
