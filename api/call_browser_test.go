package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/policy"
)

// visit sends a request to a real port as a browser on this machine does, with its Host and headers.
func (w *world) visit(method, path, host, contentType, body string, headers map[string]string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for name, value := range headers {
		r.Header[name] = strings.Split(value, "|")
	}
	status, _, text := w.send(r)
	return status, text
}

const oneCheck = `{"entries":[{"policy":"per-ip","key":"victim"}]}`

// asks has one request for each entry point.
var asks = []struct{ method, path, contentType, body string }{
	{"POST", "/stint.v1.LimitService/Check", "application/json", oneCheck},
	{"POST", "/stint.v1.LimitService/Check", "application/proto", ""},
	{"POST", "/stint.v1.LimitService/Check", "application/grpc-web+json", ""},
	{"POST", "/stint.v1.LimitService/CheckStream", "application/connect+json", ""},
	{"POST", "/stint.v1.ClusterService/RemoveNode", "application/json", `{"nodeId":"a"}`},
	{"GET", "/stint.v1.LimitService/Get?connect=v1&encoding=json&message=" + url.QueryEscape(oneCheck), "", ""},
	{"GET", "/metrics", "", ""},
	{"GET", "/readyz", "", ""},
	{"OPTIONS", "/stint.v1.LimitService/Check", "", ""},
}

func TestANameThatIsNotOursIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"evil.example", "evil.example:7400", "127.0.0.1.evil.example",
		"localhost.evil.example:7400", "[::1].evil.example", "127.0.0.1:7400.evil.example",
		"stint.example.org", "a:b.c"} {
		for _, ask := range asks {
			if ask.path == "/readyz" {
				continue
			}
			status, text := w.visit(ask.method, ask.path, host, ask.contentType, ask.body, nil)
			if strings.Contains(ask.contentType, "grpc-web") || strings.Contains(ask.contentType, "connect+") {
				if status != http.StatusOK || text != "" &&
					!strings.Contains(text, `"error":{"code":"permission_denied"`) {
					t.Errorf("%s %s as %s: %d %s", ask.method, ask.path, host, status, text)
				}
				continue // gRPC-Web has the error in the headers
			}
			if status != http.StatusMisdirectedRequest || !strings.Contains(text, "--api-hosts") ||
				strings.Count(text, "\n") != 1 {
				t.Errorf("%s %s as %s: %d %s", ask.method, ask.path, host, status, text)
			}
		}
	}
	if asked := len(w.decider.requests()); asked != 0 {
		t.Errorf("%d requests were decided", asked)
	}
}

func TestAPageOfAnotherSiteIsRefused(t *testing.T) {
	w := newWorld(t)
	ours := strings.TrimPrefix(w.url, "http://")
	for _, headers := range []map[string]string{
		{"Origin": "http://evil.example"},
		{"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
		{"Origin": "null"},
		{"Origin": "http://127.0.0.1:1"}, // another port is another site
		{"Origin": "http://localhost:7400"},
		{"Origin": "file://" + ours},
		{"Origin": "chrome-extension://" + ours},
		{"Origin": ours},
		{"Origin": w.url + "|http://evil.example"},
		{"Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "same-site"},
		{"Sec-Fetch-Site": "none|cross-site"},
		{"Sec-Fetch-Site": "anything"},
	} {
		for _, ask := range asks {
			status, text := w.visit(ask.method, ask.path, "", ask.contentType, ask.body, headers)
			if status != http.StatusForbidden || !strings.Contains(text, "another site") {
				t.Errorf("%s %s with %v: %d %s", ask.method, ask.path, headers, status, text)
			}
		}
	}
	if asked := len(w.decider.requests()); asked != 0 {
		t.Errorf("%d requests were decided", asked)
	}
}

func TestWhoIsNoWebPageIsServed(t *testing.T) {
	w := newWorld(t)
	w.url = serveWorld(t, newAPI(Config{Decider: w.decider, Revision: func() *policy.Revision { return w.revision },
		Ready: func() error { return nil }, Listeners: decisions.Listeners{w.observer}, Metrics: http.NotFoundHandler(),
		Hosts: []string{"Stint.example.org", ".SVC.cluster.local"}})).url
	for _, host := range []string{"", "localhost", "localhost:7400", "stint1:7400", "127.0.0.1", "10.1.2.3:80",
		"[::1]:7400", "[::1]",
		"[fe80::1%25eth0]:1", "stint.example.org", "STINT.example.org:7400", "stint.example.org.",
		"stint-0.stint.limits.svc.cluster.local:7400"} {
		if status, text := w.visit("POST", "/stint.v1.LimitService/Check", host, "application/json", oneCheck,
			nil); status != 200 {
			t.Errorf("as %q: %d %s", host, status, text)
		}
	}
	for _, host := range []string{"evilsvc.cluster.local", "svc.cluster.local", "x.svc.cluster.local.evil.example",
		"x.stint.example.org"} {
		if status, _ := w.visit("POST", "/stint.v1.LimitService/Check", host, "application/json", oneCheck,
			nil); status != http.StatusMisdirectedRequest {
			t.Errorf("as %q: %d", host, status)
		}
	}
	for _, headers := range []map[string]string{
		{"Origin": w.url},
		{"Origin": w.url, "Sec-Fetch-Site": "same-origin"},
		{"Sec-Fetch-Site": "none"},
	} {
		if status, text := w.visit("GET", "/readyz", "", "", "", headers); status != 200 {
			t.Errorf("%v: %d %s", headers, status, text)
		}
	}
}

// Kubernetes, Envoy and Prometheus reach a server by names with dots. Probes and gRPC are no web pages and are served;
// other refused callers appear in the log and in the metrics.
func TestNamesOfAClusterAreServedOrSeen(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.url = serveWorld(t, newAPI(Config{Decider: w.decider, Revision: func() *policy.Revision { return w.revision },
		Ready: func() error { return nil }, Listeners: decisions.Listeners{w.observer}, Metrics: http.NotFoundHandler(),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})).url
	const host = "stint.limits.svc.cluster.local"
	for _, path := range []string{"/readyz", "/healthz"} {
		if status, text := w.visit("GET", path, host, "", "", nil); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	conn := w.dial(strings.TrimPrefix(w.url, "http://"), grpc.WithAuthority(host))
	check := &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "per-ip", Key: "k"}}}
	if err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, check,
		&stintv1.CheckResponse{}); err != nil {
		t.Errorf("a check of gRPC: %v", err)
	}
	if err := conn.Invoke(t.Context(), "/grpc.health.v1.Health/Check", &healthpb.HealthCheckRequest{},
		&healthpb.HealthCheckResponse{}); err != nil {
		t.Errorf("a probe of gRPC: %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("the log says of what is served: %s", &log)
	}
	for range 1000 {
		if status, _ := w.visit("GET", "/metrics", host, "", "", nil); status != http.StatusMisdirectedRequest {
			t.Fatalf("/metrics: %d", status)
		}
	}
	counted := 0
	for _, line := range w.observer.seen() {
		if line == "request metrics permission_denied" {
			counted++
		}
	}
	lines := strings.Count(log.String(), "\n")
	if counted != 1000 || lines < 1 || lines > 500 || !strings.Contains(log.String(), "host="+host) ||
		!strings.Contains(log.String(), "--api-hosts") {
		t.Errorf("1000 refusals are counted %d times, and logged in %d lines: %.300s", counted, lines, &log)
	}
}
