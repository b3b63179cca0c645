package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

func aCheck() *stintv1.CheckRequest {
	return &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "per-ip", Key: "203.0.113.7"}}}
}

// throughBothDoors runs a gRPC test against connect and against grpc-go.
func throughBothDoors(t *testing.T, test func(*testing.T, *world, *grpc.ClientConn)) {
	t.Helper()
	t.Run("connect", func(t *testing.T) { w := newWorld(t); test(t, w, w.dial(strings.TrimPrefix(w.url, "http://"))) })
	t.Run("grpc-go", func(t *testing.T) { w := newWorld(t); test(t, w, w.dial(w.grpcAddr)) })
}

func (w *world) dial(addr string, options ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestEveryProtocolAnswersACheck(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{
		"connect":       nil,
		"connect JSON":  {connect.WithProtoJSON()},
		"gRPC-Web":      {connect.WithGRPCWeb()},
		"gRPC-Web JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			client := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url, options...)
			response, err := client.Check(t.Context(), connect.NewRequest(aCheck()))
			if err != nil {
				t.Fatal(err)
			}
			if d := response.Msg.Decision; !d.Allowed || d.Limits[0].Used != 1 || d.Limits[0].Remaining != 99 {
				t.Errorf("got %v", d)
			}
		})
	}
}

// Packed requests are read in every protocol. Large answers are packed for clients that accept it, small ones are not.
func TestGzip(t *testing.T) {
	w := newWorld(t)
	batch := &stintv1.CheckBatchRequest{}
	for range 200 {
		batch.Checks = append(batch.Checks, aCheck())
	}
	for name, option := range map[string]connect.ClientOption{"connect": connect.WithProtoJSON(),
		"grpc-web": connect.WithGRPCWeb()} {
		client := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url, connect.WithSendGzip(), option)
		small, err := client.Check(t.Context(), connect.NewRequest(aCheck()))
		if err != nil || !small.Msg.GetDecision().GetAllowed() || small.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: a packed request: %v, %v", name, small, err)
		}
		large, err := client.CheckBatch(t.Context(), connect.NewRequest(batch))
		if err != nil || len(large.Msg.Results) != 200 {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "connect" && large.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("a large answer is not packed: %v", large.Header())
		}
	}
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		var response stintv1.CheckBatchResponse
		err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckBatchProcedure, batch, &response,
			grpc.UseCompressor("gzip"))
		if err != nil || len(response.Results) != 200 {
			t.Errorf("%d outcomes, %v", len(response.Results), err)
		}
	})
}

// A small answer that is packed for clients on the fast path, and one for a client that refuses gzip by name.
func TestWantsPacked(t *testing.T) {
	large := make([]byte, answerPackedFrom)
	for header, want := range map[string]bool{"": false, "gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false,
		"gzip; q=0.000, br": false, "x-gzip": false} {
		r := httptest.NewRequest("POST", "/", nil)
		if header != "" {
			r.Header.Set("Accept-Encoding", header)
		}
		if got := wantsPacked(r, large); got != want || wantsPacked(r, large[1:]) {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// The unpacked size of a few packed bytes has the bound of a body, and takes no more memory than that.
func TestAGzipBombIsRefused(t *testing.T) {
	w := newWorld(t)
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	packer.Write([]byte(`{"entries":[{"policy":"per-ip","key":"`))
	for range 64 {
		packer.Write(bytes.Repeat([]byte{'k'}, 1<<20))
	}
	packer.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", w.url+stintv1connect.LimitServiceCheckProcedure, &bomb)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if e, _ := readError(t, string(body)); response.StatusCode != 400 || e.Code != "invalid_argument" ||
		!strings.Contains(e.Message, "at most 1048576 bytes") {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	if n := len(w.decider.requests()); n > 0 {
		t.Errorf("%d requests were decided", n)
	}
}

func TestAGzipBombIsRefusedOverGRPC(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		bomb := aCheck()
		bomb.Entries[0].Key = strings.Repeat("k", 64<<20)
		var response stintv1.CheckResponse
		err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, bomb, &response,
			grpc.UseCompressor("gzip"), grpc.MaxCallSendMsgSize(1<<30))
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.ResourceExhausted {
			t.Errorf("got %v", err)
		}
		if n := len(w.decider.requests()); n > 0 {
			t.Errorf("%d requests were decided", n)
		}
	})
}

func TestGRPCClient(t *testing.T) { throughBothDoors(t, testGRPCClient) }

func testGRPCClient(t *testing.T, w *world, conn *grpc.ClientConn) {
	check := func() (*stintv1.Decision, error) {
		var response stintv1.CheckResponse
		err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, aCheck(), &response)
		return response.Decision, err
	}
	if d, err := check(); err != nil || !d.Allowed {
		t.Errorf("got %v, %v", d, err)
	}
	w.decider.decide = deny
	if d, err := check(); err != nil || d.Allowed {
		t.Errorf("a denial: got %v, %v", d, err)
	}
	w.decider.decide = fail(&shard.Error{Code: shard.UnknownOutcome, Message: "the log closed"})
	_, err := check()
	if status.Code(err) != codes.Aborted {
		t.Fatalf("an unknown outcome: got %v", err)
	}
	failure, ok := status.Convert(err).Details()[0].(*stintv1.Failure)
	if !ok || failure.Code != "aborted" || !failure.MaybeApplied {
		t.Errorf("detail: %v", failure)
	}
}

func TestGetByHTTPGet(t *testing.T) {
	w := newWorld(t)
	query := url.Values{"encoding": {"json"}, "message": {strings.TrimSuffix(perIP, "}") + `,"explain":true}`}}
	code, _, body := w.do("GET", "/stint.v1.LimitService/Get?"+query.Encode(), "", "")
	if code != 200 || !strings.Contains(body, "per-ip/minute of 203.0.113.7: ") {
		t.Errorf("got %d %s", code, body)
	}
	client := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url, connect.WithHTTPGet())
	response, err := client.Get(t.Context(), connect.NewRequest(&stintv1.GetRequest{Entries: aCheck().Entries}))
	if err != nil || len(response.Msg.Limits) != 1 {
		t.Errorf("got %v, %v", response, err)
	}
	for _, r := range w.decider.requests() {
		if r.Op != shard.Get {
			t.Errorf("operation %d", r.Op)
		}
	}
}

func TestACheckIsNoHTTPGet(t *testing.T) {
	code, _, _ := newWorld(t).do("GET", "/stint.v1.LimitService/Check?encoding=json&message={}", "", "")
	if code != http.StatusMethodNotAllowed {
		t.Errorf("got %d", code)
	}
}

func TestHealthAndReadiness(t *testing.T) { throughBothDoors(t, testHealthAndReadiness) }

func testHealthAndReadiness(t *testing.T, w *world, conn *grpc.ClientConn) {
	ask := func(service string) string {
		r, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return r.Status.String()
	}
	get := func(path string) string {
		code, _, body := w.do("GET", path, "", "")
		return http.StatusText(code) + ": " + body
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect(ask(""), "SERVING")
	expect(ask("stint.v1.LimitService"), "SERVING")
	expect(ask("stint.v1.ClusterService"), "SERVING")
	expect(ask("other.Service"), "NotFound")
	expect(get("/healthz"), "OK: ok\n")
	expect(get("/readyz"), "OK: ready\n")
	expect(get("/metrics"), "OK: series\n")
	w.ready = errors.New("shard 2 has no owner")
	expect(ask(""), "NOT_SERVING")
	expect(get("/healthz"), "OK: ok\n")
	expect(get("/readyz"), "Service Unavailable: not ready: shard 2 has no owner\n")
}

func TestReflectionListsTheServices(t *testing.T) {
	throughBothDoors(t, testReflectionListsTheServices)
}

func testReflectionListsTheServices(t *testing.T, _ *world, conn *grpc.ClientConn) {
	want := []string{"envoy.service.auth.v3.Authorization", "envoy.service.ratelimit.v3.RateLimitService",
		"grpc.health.v1.Health", "stint.v1.ClusterService",
		"stint.v1.LimitService", "stint.v1.ObserveService", "stint.v1.PolicyService", "stint.v1.SecretService",
		"stint.v1.SinkService", "stint.v1.TokenService"}
	// Both versions have the same messages; grpcurl and others still use the older one.
	for _, version := range []string{"v1", "v1alpha"} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(&reflectpb.ServerReflectionRequest{
			MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		var response reflectpb.ServerReflectionResponse
		if err := stream.RecvMsg(&response); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range response.GetListServicesResponse().GetService() {
			if !strings.HasPrefix(s.Name, "grpc.reflection.") { // one door lists this service, too
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q", version, names)
		}
	}
}

func TestCallsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ownWorld(t, nil, 3*time.Second)
		door, left := servePipes(t, w.api), timeLeft(w)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return door.dial(), nil
		}}
		t.Cleanup(transport.CloseIdleConnections)
		client := stintv1connect.NewLimitServiceClient(&http.Client{Transport: transport}, "http://memory")
		if _, err := client.Check(t.Context(), connect.NewRequest(aCheck())); err != nil || *left != 3*time.Second {
			t.Errorf("a call without a deadline has %v, %v", *left, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := client.Check(ctx, connect.NewRequest(aCheck())); err != nil || *left != 20*time.Second {
			t.Errorf("a call with 20 s has %v, %v", *left, err)
		}
	})
}

// perIPDecision is the handle of a check of perIP.
const perIPDecision = "AQHZZh3CFRBP4IvF5M7J9bK2omWt6nmqoPZgWKVgEroKut6NvFyCDbAf6b-WtjZU0lowAmxnYS6fn2pN3Gb1Nln2omR1EHrO7mmLwY3rtH9Q"

const perIP = `{"entries":[{"policy":"per-ip","key":"203.0.113.7"}]}`

func TestJSONOfACheck(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name   string
		decide func(shard.Request) shard.Result
		want   string
	}{
		{"allowed", allow, `{"decision":{"allowed":true,"decisionId":"` + perIPDecision + `",` +
			`"limits":[{"policy":"per-ip","limit":"minute","key":"203.0.113.7","quota":"100","used":"1","held":"0",` +
			`"remaining":"99","granted":"0",` +
			`"windowStart":"2026-11-21T12:00:00Z","resetAt":"2026-11-21T12:01:00Z","allowed":true,"shadow":false,` +
			`"lockoutLevel":0,"unlimited":false,"soft":false}],"deniedBy":[],"reason":"",` +
			`"decidedAt":"2026-11-21T12:00:00.250Z",` +
			`"headers":{},"holdId":"","replayed":false,"shadowDenied":false,` +
			`"positions":[{"shard":3,"epoch":"17","seq":"99"}],"explanation":"","outcome":"OUTCOME_ALLOWED",` +
			`"leased":false}}`},
		{"denied", deny, `{"decision":{"allowed":false,"decisionId":"","limits":[{"policy":"per-ip","limit":"minute",` +
			`"key":"203.0.113.7","quota":"100","used":"100","held":"0","remaining":"0","granted":"0",` +
			`"windowStart":"2026-11-21T12:00:00Z","resetAt":"2026-11-21T12:01:00Z","retryAfter":"59.750001s",` +
			`"allowed":false,"shadow":false,"lockoutLevel":0,"unlimited":false,"soft":false}],` +
			`"deniedBy":["per-ip/minute"],` +
			`"reason":"","retryAfter":"59.750001s","decidedAt":"2026-11-21T12:00:00.250Z",` +
			`"headers":{"Retry-After":"60"},"holdId":"",` +
			`"replayed":false,"shadowDenied":false,"positions":[{"shard":3,"epoch":"17","seq":"99"}],` +
			`"explanation":"","outcome":"OUTCOME_DENIED","leased":false}}`},
		{"leased", func(shard.Request) shard.Result {
			return shard.Result{Decision: shard.Decision{Allowed: true, Age: 1_000_000}}
		},
			`{"decision":{"allowed":true,"decisionId":"","limits":[],"deniedBy":[],"reason":"",` +
				`"decidedAt":"1970-01-01T00:00:00Z",` +
				`"headers":{},"holdId":"","replayed":false,"shadowDenied":false,"positions":[{"shard":0,"epoch":"0",` +
				`"seq":"0"}],` +
				`"explanation":"","outcome":"OUTCOME_ALLOWED","leased":true}}`},
	} {
		w.decider.decide = c.decide
		code, _, body := w.post("LimitService/Check", perIP)
		if got := compact(t, body); code != 200 || got != c.want {
			t.Errorf("%s: %d\ngot  %s\nwant %s", c.name, code, got, c.want)
		}
		if err := protojson.Unmarshal([]byte(body), &stintv1.CheckResponse{}); err != nil {
			t.Error(err)
		}
	}
}

func TestPoliciesAreListed(t *testing.T) {
	w := newWorld(t)
	_, _, body := w.post("PolicyService/List", `{}`)
	var response stintv1.ListPoliciesResponse
	if err := protojson.Unmarshal([]byte(body), &response); err != nil {
		t.Fatal(err)
	}
	if response.Version != 7 {
		t.Errorf("version %d", response.Version)
	}
	if len(response.Policies) != 2 || response.Policies[0].Name != "api" || response.Policies[1].Name != "per-ip" {
		t.Fatalf("got %s", body)
	}
	api := response.Policies[0]
	b := api.Limits[0].GetTokenBucket()
	if api.Limits[0].GetQuota() != 5 || b.GetRefill() != 2 || b.GetPer().Seconds != 1 || b.Initial != nil {
		t.Errorf("burst: %v", api.Limits[0])
	}
	if s := api.Limits[1].GetSlidingWindow(); s.GetPeriod().Seconds != 86400 || s.GetBucket().Seconds != 60 {
		t.Errorf("daily: %v", api.Limits[1])
	}
	if tier := api.Tiers["researcher"].GetLimits()["burst"]; tier.GetQuota() != 30 || tier.Refill != nil {
		t.Errorf("researcher: %v", tier)
	}
	if api.IdempotencyRetention.Seconds != 600 || len(api.Headers) != 3 || api.Reason == "" {
		t.Errorf("api: %v", api)
	}
	minute := response.Policies[1].Limits[0].GetFixedWindow()
	if minute.GetAnchor() != stintv1.Anchor_ANCHOR_EPOCH || minute.GetPeriod().Seconds != 60 {
		t.Errorf("per-ip: %v", w)
	}
}
