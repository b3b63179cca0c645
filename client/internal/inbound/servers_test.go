package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stintconnect"
	"github.com/stint-io/stint/client/stintgrpc"
	"github.com/stint-io/stint/client/stinthttp"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/stinttest"
)

const policies = `
policies:
  shared:
    headers: [ietf]
    reason: Enough for now
    limits: [{name: day, quota: 150, fixed_window: {period: 24h, anchor: first_hit}}]
  few:
    max_keys: 1
    limits: [{name: ever, quota: 150, lifetime: {}}]
  plan:
    unknown_key: deny
    limits: [{name: day, quota: 150, fixed_window: {period: 24h, anchor: first_hit}}]
`

// answer is how a server answered: ok, denied, or what it said instead.
type answer string

const (
	ok     answer = "ok"
	denied answer = "denied"
)

// ask sends one request to a server that counts it for a key.
type ask func(ctx context.Context, key string) answer

// Sixty-four callers ask each kind of server for 300 requests: exactly 150 pass.
func TestServersAreExact(t *testing.T) {
	limits := stinttest.Start(t, policies).Client()
	areExact(t, limits, func(int, func() int64) (repair func()) { return func() {} })
	for name, ask := range map[string]ask{
		"net/http": serveHTTP(t, limits, "plan"), "connect": serveConnect(t, limits, "plan"),
		"grpc": serveGRPC(t, limits, "plan"),
	} {
		if said := ask(t.Context(), "invented"); !strings.Contains(string(said), "not known") {
			t.Errorf("%s answers an invented key of a policy with unknown_key: deny with %q", name, said)
		}
	}
	for name, ask := range map[string]ask{
		"net/http": serveHTTP(t, limits, "absent", stinthttp.FailOpen),
		"connect":  serveConnect(t, limits, "absent", stintconnect.FailOpen),
		"grpc":     serveGRPC(t, limits, "absent", stintgrpc.FailOpen),
	} {
		if said := ask(t.Context(), "k"); said == ok {
			t.Errorf("%s opens for a policy that does not exist", name)
		}
	}
	// A client that makes more keys than there is room for does not open the door.
	for name, ask := range map[string]ask{
		"net/http": serveHTTP(t, limits, "few", stinthttp.FailOpen),
		"connect":  serveConnect(t, limits, "few", stintconnect.FailOpen),
		"grpc":     serveGRPC(t, limits, "few", stintgrpc.FailOpen),
	} {
		if said := ask(t.Context(), "key"); said != ok {
			t.Errorf("%s: the first key: %q", name, said)
		}
		if said := ask(t.Context(), "another key"); !strings.Contains(string(said), "could not be checked") {
			t.Errorf("%s: another key, and there is room for one: %q", name, said)
		}
	}
}

// areExact asks each kind of server, while something happens that is repaired afterwards.
func areExact(t *testing.T, limits *client.Client, meanwhile func(i int, answered func() int64) (repair func())) {
	t.Helper()
	const within = await.Patience // whatever the machine does beside
	servers := map[string]ask{
		"net/http": serveHTTP(t, limits, "shared", stinthttp.Within(within)),
		"connect":  serveConnect(t, limits, "shared", stintconnect.Within(within)),
		"grpc":     serveGRPC(t, limits, "shared", stintgrpc.Within(within)),
	}
	for i, name := range []string{"net/http", "connect", "grpc"} {
		var passed, stopped, answered atomic.Int64
		var group sync.WaitGroup
		for caller := range 64 {
			group.Go(func() {
				for range (300 + 63 - caller) / 64 {
					switch said := servers[name](t.Context(), "tenant "+name); said {
					case ok:
						passed.Add(1)
					case denied:
						stopped.Add(1)
					default:
						t.Errorf("%s answers %q", name, said)
					}
					answered.Add(1)
				}
			})
		}
		repair := meanwhile(i, answered.Load)
		group.Wait()
		if passed.Load() != 150 || stopped.Load() != 150 {
			t.Errorf("%s: %d passed and %d were denied, want 150 each", name, passed.Load(), stopped.Load())
		}
		repair()
	}
}

// A policy that does not exist is the server's mistake, whatever its fail mode: no sender is refused for it, and none
// passes. A key that a policy does not know is the sender's.
func TestAMistypedPolicyIsOurMistake(t *testing.T) {
	limits := stinttest.Start(t, policies).Client()
	const within = await.Patience
	for mode, servers := range map[string]map[string]func(policy string) ask{
		"closed": {
			"net/http": func(policy string) ask { return serveHTTP(t, limits, policy, stinthttp.Within(within)) },
			"connect":  func(policy string) ask { return serveConnect(t, limits, policy, stintconnect.Within(within)) },
			"grpc":     func(policy string) ask { return serveGRPC(t, limits, policy, stintgrpc.Within(within)) },
		},
		"open": {
			"net/http": func(policy string) ask {
				return serveHTTP(t, limits, policy, stinthttp.Within(within), stinthttp.FailOpen)
			},
			"connect": func(policy string) ask {
				return serveConnect(t, limits, policy, stintconnect.Within(within), stintconnect.FailOpen)
			},
			"grpc": func(policy string) ask {
				return serveGRPC(t, limits, policy, stintgrpc.Within(within), stintgrpc.FailOpen)
			},
		},
	} {
		for name, want := range map[string]struct{ mistake, stranger string }{
			"net/http": {"500 ", "403 "}, "connect": {"internal: ", "permission_denied: "},
			"grpc": {"code = Internal ", "code = PermissionDenied "},
		} {
			if said := servers[name]("mistyped")(t.Context(), "k"); !strings.Contains(string(said), want.mistake) ||
				strings.Contains(string(said), "mistyped") {
				t.Errorf("%s, %s, answers %q for a policy that does not exist, want %q", name, mode, said, want.mistake)
			}
			if said := servers[name]("plan")(t.Context(), "invented"); !strings.Contains(string(said), want.stranger) {
				t.Errorf("%s, %s, answers %q for a key that the policy does not know, want %q",
					name, mode, said, want.stranger)
			}
		}
	}
}

// A denial has the wait, and the headers of the policy. Without a decision no request passes, unless the server is
// configured so.
func TestAnswersOfServers(t *testing.T) {
	denial := &stintv1.Decision{Reason: "Enough for now", DeniedBy: []string{"shared/day"},
		RetryAfter: durationpb.New(90 * time.Second),
		Headers:    map[string]string{"Retry-After": "90", "RateLimit": `"day";r=0;t=90`}}
	limits := &fake{d: denial}
	for name, ask := range map[string]ask{"net/http": serveHTTP(t, limits, "shared"),
		"connect": serveConnect(t, limits, "shared"), "grpc": serveGRPC(t, limits, "shared")} {
		if said := ask(t.Context(), "k"); said != denied {
			t.Errorf("%s denies with %q", name, said)
		}
	}
	limits.d, limits.err = nil, &client.Error{Code: "unavailable", Message: "a secret of the cluster",
		MaybeApplied: true}
	closed := map[string]ask{"net/http": serveHTTP(t, limits, "shared"), "connect": serveConnect(t, limits, "shared"),
		"grpc": serveGRPC(t, limits, "shared")}
	for name, ask := range closed {
		if said := ask(t.Context(), "k"); !strings.Contains(string(said), "could not be checked") ||
			strings.Contains(string(said), "secret") {
			t.Errorf("%s answers %q without a decision", name, said)
		}
		if said := ask(t.Context(), ""); !strings.Contains(string(said), "whom it counts for") {
			t.Errorf("%s answers %q without a key", name, said)
		}
	}
	var told atomic.Int64
	open := map[string]ask{
		"net/http": serveHTTP(t, limits, "shared", stinthttp.FailOpen,
			stinthttp.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
				told.Add(1)
				stinthttp.Failed(w, r, err)
			})),
		"connect": serveConnect(t, limits, "shared", stintconnect.FailOpen,
			stintconnect.OnError(func(context.Context, error) { told.Add(1) })),
		"grpc": serveGRPC(t, limits, "shared", stintgrpc.FailOpen,
			stintgrpc.OnError(func(context.Context, error) { told.Add(1) })),
	}
	for name, ask := range open {
		if said := ask(t.Context(), "k"); said != ok {
			t.Errorf("%s is open and answers %q", name, said)
		}
		if said := ask(t.Context(), ""); said == ok {
			t.Errorf("%s is open, and passes a request without a key", name)
		}
	}
	if told.Load() != 6 {
		t.Errorf("OnError was told of %d requests, want 6", told.Load())
	}
}

func TestAHandlerSeesItsDecision(t *testing.T) {
	limits := &fake{d: &stintv1.Decision{Allowed: true, DecisionId: "d1"}}
	var seen string
	handler := stinthttp.Limit(limits, stinthttp.Entry("p", stinthttp.ClientIP()))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = stinthttp.DecisionOf(r.Context()).GetDecisionId()
		}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if seen != "d1" {
		t.Errorf("the handler sees the decision %q", seen)
	}
}

func TestAMiddlewareThatLimitsNothingIsRefused(t *testing.T) {
	for name, make := range map[string]func(){
		"net/http": func() { stinthttp.Limit(&fake{}) }, "connect": func() { stintconnect.Limit(&fake{}) },
		"grpc": func() { stintgrpc.Unary(&fake{}) }, "a proxy that is none": func() { stinthttp.ClientIP("10.0.0.1") },
		"a key without parts": func() { stinthttp.EntryOf("p") },
		"a part without a name": func() {
			stintconnect.Limit(&fake{}, stintconnect.EntryOf("p", stintconnect.Part{Value: stintconnect.ClientIP()}))
		},
		"a name twice": func() { stintgrpc.Unary(&fake{}, stintgrpc.EntryOf("p", onePart, onePart)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes it", name)
				}
			}()
			make()
		}()
	}
}

var onePart = stintgrpc.Part{Name: "ip", Value: stintgrpc.ClientIP()}

// A key of several parts is counted as one, on every server.
func TestServersCountByParts(t *testing.T) {
	limits := stinttest.Start(t, policies).Client()
	key := func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil }
	route := func(*http.Request) (string, error) { return "a/b", nil }
	handler := stinthttp.Limit(limits, stinthttp.Within(time.Minute),
		stinthttp.EntryOf("shared", stinthttp.Part{Name: "route", Value: route},
			stinthttp.Part{Name: "user", Value: key}))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for who, want := range map[string]int{"ann|x": 200, "": 400} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", who)
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d %s", who, w.Code, w.Body)
		}
	}
	d, err := limits.Get(t.Context(),
		&stintv1.GetRequest{Entries: client.Entry("shared", "route=a%2Fb|user=ann%7Cx").Entries})
	if err != nil || d.Limits[0].Used != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

// fake is a Checker with one answer.
type fake struct {
	d   *stintv1.Decision
	err error
}

func (f *fake) Check(context.Context, *stintv1.CheckRequest) (*stintv1.Decision, error) {
	return f.d, f.err
}

// told checks the parts of a denial besides its status.
func told(retryAfter, rateLimit, reason string, wait time.Duration) answer {
	if retryAfter == "" || !strings.HasPrefix(rateLimit, `"day";r=0`) || reason != "Enough for now" || wait == 0 {
		return answer(fmt.Sprintf("denied with Retry-After %q, RateLimit %q, the reason %q and the wait %v",
			retryAfter, rateLimit, reason, wait))
	}
	return denied
}

func serveHTTP(t *testing.T, limits stinthttp.Checker, policy string, options ...stinthttp.Option) ask {
	key := func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil }
	limit := stinthttp.Limit(limits, append(options, stinthttp.Entry(policy, key))...)
	server := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "done")
	})))
	t.Cleanup(server.Close)
	return func(ctx context.Context, key string) answer {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		r.Header.Set("Key", key)
		response, err := server.Client().Do(r)
		if err != nil {
			return answer(err.Error())
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		switch response.StatusCode {
		case http.StatusOK:
			return ok
		case http.StatusTooManyRequests:
			if response.Header.Get("Cache-Control") != "no-store" ||
				len(response.Header.Values("Access-Control-Expose-Headers")) < 2 ||
				response.Header.Get("Content-Type") != "application/problem+json" ||
				!strings.Contains(string(body), `"violated-policies":["shared/day"]`) {
				return answer(fmt.Sprint("denied with ", response.Header, string(body)))
			}
			reason := "Enough for now"
			if !strings.Contains(string(body), reason) {
				reason = string(body)
			}
			return told(response.Header.Get("Retry-After"), response.Header.Get("RateLimit"), reason, time.Second)
		}
		return answer(fmt.Sprint(response.StatusCode, " ", string(body)))
	}
}

// echo is a Connect service with a procedure that always answers.
type echo struct {
	stintv1connect.UnimplementedLimitServiceHandler
}

func (echo) Get(context.Context, *connect.Request[stintv1.GetRequest]) (*connect.Response[stintv1.GetResponse], error) {
	return connect.NewResponse(&stintv1.GetResponse{}), nil
}

func (echo) CheckStream(
	context.Context, *connect.BidiStream[stintv1.CheckBatchRequest, stintv1.CheckBatchResponse],
) error {
	return nil
}

func serveConnect(t *testing.T, limits stinthttp.Checker, policy string, options ...stintconnect.Option) ask {
	key := func(_ context.Context, call stintconnect.Call) (string, error) { return call.Header.Get("Key"), nil }
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewLimitServiceHandler(echo{},
		connect.WithInterceptors(stintconnect.Limit(limits, append(options, stintconnect.Entry(policy, key))...))))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	service := stintv1connect.NewLimitServiceClient(server.Client(), server.URL)
	said := func(err error) answer {
		var failure *connect.Error
		switch {
		case err == nil:
			return ok
		case !errors.As(err, &failure) || failure.Code() != connect.CodeResourceExhausted:
			return answer(err.Error())
		}
		var wait time.Duration
		for _, d := range failure.Details() {
			if value, err := d.Value(); err == nil {
				if info, isInfo := value.(*errdetails.RetryInfo); isInfo {
					wait = info.RetryDelay.AsDuration()
				}
			}
		}
		return told(failure.Meta().Get("Retry-After"), failure.Meta().Get("RateLimit"), failure.Message(), wait)
	}
	var turn atomic.Int64
	return func(ctx context.Context, key string) answer {
		if turn.Add(1)%2 == 0 { // streams are counted as calls are
			stream := service.CheckStream(ctx)
			stream.RequestHeader().Set("Key", key)
			if err := stream.Send(nil); err != nil && !errors.Is(err, io.EOF) {
				return said(err)
			}
			_, err := stream.Receive()
			stream.CloseRequest()
			stream.CloseResponse()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return said(err)
		}
		r := connect.NewRequest(&stintv1.GetRequest{})
		r.Header().Set("Key", key)
		_, err := service.Get(ctx, r)
		return said(err)
	}
}

func serveGRPC(t *testing.T, limits stinthttp.Checker, policy string, options ...stintgrpc.Option) ask {
	key := func(ctx context.Context, _ stintgrpc.Call) (string, error) {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, "key"), ""), nil
	}
	options = append(options, stintgrpc.Entry(policy, key))
	server := grpc.NewServer(grpc.UnaryInterceptor(stintgrpc.Unary(limits, options...)),
		grpc.StreamInterceptor(stintgrpc.Stream(limits, options...)))
	healthv1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	service := healthv1.NewHealthClient(conn)
	said := func(err error, header metadata.MD) answer {
		s := status.Convert(err)
		switch {
		case err == nil:
			return ok
		case s.Code() != codes.ResourceExhausted:
			return answer(err.Error())
		}
		var wait time.Duration
		for _, d := range s.Details() {
			if info, isInfo := d.(*errdetails.RetryInfo); isInfo {
				wait = info.RetryDelay.AsDuration()
			}
		}
		return told(strings.Join(header.Get("retry-after"), ""), strings.Join(header.Get("ratelimit"), ""),
			s.Message(), wait)
	}
	var turn atomic.Int64
	return func(ctx context.Context, key string) answer {
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "key", key))
		defer cancel()
		if turn.Add(1)%2 == 0 {
			stream, err := service.Watch(ctx, &healthv1.HealthCheckRequest{})
			if err != nil {
				return answer(err.Error())
			}
			_, err = stream.Recv()
			header, _ := stream.Header()
			if len(header) == 0 {
				header = stream.Trailer()
			}
			return said(err, header)
		}
		var header, trailer metadata.MD
		_, err := service.Check(ctx, &healthv1.HealthCheckRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		return said(err, metadata.Join(header, trailer))
	}
}
