package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/await"
)

// Markers stand for what no log may have.
const (
	markKey    = "marker-key"
	markID     = "marker-request-id"
	markBody   = "marker-in-a-body"
	markToken  = "marker-no-token"
	markHeader = "marker-in-a-header"
	markQuery  = "marker-in-a-query"
	markPolicy = "marker-policy"
	markNote   = "marker-note"
)

const markedPolicies = `policies:
  stock: {limits: [{name: total, quota: 3, lifetime: {}}]}
gates:
  web:
    trusted_proxies: [127.0.0.0/8]
    no_match: deny
    routes:
      - {match: {glob: "/a/**"}, entries: [{policy: stock, key: "{ip}"}]}
envoy: {edge: {rules: [{match: [{k: "*"}], entries: [{policy: stock, key: "{k}"}]}]}}
`

// TestLogsAndTracesHaveNoSecret: a node that logs and traces everything, every call and down to debug, is asked by
// every way in, rightly and wrongly. Then its log has a line about each way and its collector a span, and neither has
// any of the keys, ids, tokens, bodies, headers, notes and ids of holds.
func TestLogsAndTracesHaveNoSecret(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	config := testConfig(t)
	config.Logger = slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config.LogSlow = 1 // nanosecond
	at := newCollector(t)
	config.TraceOTLP, config.TraceRatio = at.URL, 1
	config.GRPCAddr, config.RedisAddr = "127.0.0.1:0", "127.0.0.1:0"
	config.PoliciesFile = filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(config.PoliciesFile, []byte(markedPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, config)
	token := createToken(t, config.DataDir, "web", "admin")
	await.Until(t, "the token is known", func() bool { return spendAs(n, token) == http.StatusOK })

	secrets := []string{markKey, markID, markBody, markToken, markHeader, markQuery, markPolicy, markNote, token,
		token[len(token)-20:]}
	secrets = append(secrets, askByHTTP(t, n, token)...)
	askByGRPC(t, n, token)
	askByRedis(t, n, token)
	askAtGate(t, n, token)
	stop(t, n)

	log := j.String()
	ways := map[string]string{} // of spans: the method and its protocol
	for _, s := range at.spans {
		ways[s.Name] = attribute(s.Attributes, "rpc.system.name")
		for _, secret := range secrets {
			if strings.Contains(strings.ToLower(s.String()), strings.ToLower(secret)) {
				t.Errorf("a span has %q: %v", secret, s)
			}
		}
	}
	for _, secret := range secrets {
		for line := range strings.Lines(log) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(secret)) {
				t.Errorf("the log has %q: %s", secret, line)
			}
		}
	}
	for way, system := range map[string]string{"stint.v1.LimitService/Check": "",
		"stint.v1.LimitService/Reserve": "connectrpc", "stint.v1.LimitService/CheckBatch": "connectrpc",
		"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": "grpc", "redis/stint.check": "redis",
		"redis/incr": "redis", "gate/web": "gate"} {
		if !strings.Contains(log, `"method":"`+way+`"`) {
			t.Errorf("the log says nothing of %s", way)
		}
		if got, traced := ways[strings.TrimPrefix(way, "redis/")]; !traced || system != "" && got != system {
			t.Errorf("%s has a span of %q", way, got)
		}
	}
	for _, what := range []string{`"trace_id":"`, `"method":"redis/auth"`, `"caller":"token:web"`, `"policy":"stock"`,
		`"method":"stint.v1.LimitService/Adjust","code":"ok"`, `"code":"invalid_argument"`, `"code":"not_found"`} {
		if !strings.Contains(log, what) {
			t.Errorf("no call was logged with %s", what)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// askByHTTP asks in JSON, and returns the ids of holds and decisions that it was given.
func askByHTTP(t *testing.T, n *Node, token string) (ids []string) {
	for _, c := range []struct{ procedure, body string }{
		{"Check", `{"entries":[{"policy":"stock","key":"` + markKey + `"}],"idempotencyId":"` + markID + `"}`},
		{"Reserve", `{"check":{"entries":[{"policy":"stock","key":"` + markKey + `"}]},"ttl":"60s"}`},
		{"CheckBatch", `{"checks":[{"entries":[{"policy":"stock","key":"` + markKey + `","cost":"9"}]}]}`},
		{"Check", `{"entries":[{"policy":"` + markPolicy + `","key":"` + markKey + `"}]}`},
		{"Check", `{"` + markBody + `":1}`},
		{"Check", markBody},
		{"Check", `{"entries":[{"policy":"stock","key":"` + markKey + strings.Repeat("x", 2000) + `"}]}`},
		{"Adjust", `{"policy":"stock","key":"` + markKey + `","reset":{},"note":"` + markNote + `"}`},
		{"Settle", `{"decisionId":"` + markID + `","commit":{}}`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST",
			"http://"+n.APIAddr()+"/stint.v1.LimitService/"+c.procedure+"?x="+markQuery, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json",
			"Authorization": "Bearer " + token, "Cookie": markHeader, "Stint-Actor": markHeader} {
			r.Header.Set(name, value)
		}
		response, err := clientOf(n).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		var answer struct {
			Decision struct{ HoldID, DecisionID string }
		}
		if json.Unmarshal(text, &answer) == nil {
			for _, id := range []string{answer.Decision.HoldID, answer.Decision.DecisionID} {
				if id != "" {
					ids = append(ids, id)
				}
			}
		}
	}
	if status := spendAs(n, markToken); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	if len(ids) < 2 {
		t.Fatalf("no ids of a hold and a decision: %v", ids)
	}
	return ids
}

// askByGRPC asks through grpc-go: a check that is refused, and Envoy.
func askByGRPC(t *testing.T, n *Node, token string) {
	conn := dialGRPC(t, n)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token, "cookie", markHeader)
	check := &stintv1.CheckRequest{IdempotencyId: markID, Entries: []*stintv1.Entry{{Policy: markPolicy, Key: markKey}}}
	if err := conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, check, &stintv1.CheckResponse{}); err == nil {
		t.Error("an unknown policy was answered")
	}
	if _, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "edge",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: markKey}}}}}); err != nil {
		t.Error(err)
	}
}

// askByRedis sends commands one by one, each of which is a round.
func askByRedis(t *testing.T, n *Node, token string) {
	conn, err := dialerOf(n)(t.Context(), "tcp", n.RedisAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, line := range []string{"AUTH " + markToken, "AUTH " + token, "STINT.CHECK stock " + markKey,
		"STINT.CHECK " + markPolicy + " " + markKey, "INCR " + markKey, "SET " + markKey + " " + markBody,
		markBody + " " + markKey} {
		fmt.Fprintf(conn, "%s\r\n", line)
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatalf("%.10s: %v", line, err)
		}
		for in.Buffered() > 0 {
			in.ReadByte()
		}
	}
}

// askAtGate asks a gate about a visitor's request.
func askAtGate(t *testing.T, n *Node, token string) {
	for _, path := range []string{"/a/" + markQuery + "?q=" + markQuery, "/" + markQuery} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.APIAddr()+"/gate/web", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": path,
			"X-Forwarded-For": "203.0.113.7", "Stint-Token": token, "Authorization": "Bearer " + markHeader,
			"Cookie": markHeader} {
			r.Header.Set(name, value)
		}
		response, err := clientOf(n).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}
