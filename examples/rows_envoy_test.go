package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// envoys are Envoys of which each asks one node: grpc-go, with Envoy's messages.
func envoys(t *testing.T, c *testcluster.Cluster) (all []rlsv3.RateLimitServiceClient) {
	t.Helper()
	for i := range c.Len() {
		conn, err := grpc.NewClient(c.Addr(i), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all = append(all, rlsv3.NewRateLimitServiceClient(conn))
	}
	return all
}

func startEnvoyNodes(t *testing.T, nodes int) *testcluster.Cluster {
	t.Helper()
	return start(t, testcluster.Options{Nodes: nodes}, "testdata/envoy.yaml")
}

// ofEnvoy makes the request of one descriptor.
func ofEnvoy(pairs ...string) *rlsv3.RateLimitRequest {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}}
}

// passes asks until there is an answer.
func passes(t *testing.T, envoy rlsv3.RateLimitServiceClient, pairs ...string) bool {
	t.Helper()
	m, err := envoy.ShouldRateLimit(t.Context(), ofEnvoy(pairs...), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return m.OverallCode == rlsv3.RateLimitResponse_OK
}

// Rules of path, method and address in front of the application, by the counters that the application uses as well.
func TestSeedRow18RulesInFrontShareTheCounters(t *testing.T) {
	t.Parallel()
	c := startEnvoyNodes(t, 1)
	envoy, app := envoys(t, c)[0], client{t, c.Addr(0)}
	for i := range 5 {
		if got := passes(t, envoy, "path", "/login", "method", "POST", "remote_address", "192.0.2.7"); got != (i < 3) {
			t.Errorf("login %d passes: %v", i+1, got)
		}
	}
	// the first meets no rule: there is no way back from its exact path
	for _, path := range []string{"/login", "/about"} {
		if !passes(t, envoy, "path", path, "method", "GET", "remote_address", "192.0.2.7") {
			t.Errorf("%s is over", path)
		}
	}
	if d := app.check("edge.address", "192.0.2.7", "cost", "17"); d.Allowed {
		t.Error("the application does not see what Envoy has spent")
	}
	if d := app.check("edge.address", "192.0.2.7", "cost", "16"); !d.Allowed {
		t.Error("a request that Envoy was told to refuse was counted")
	}
	if passes(t, envoy, "path", "/", "method", "GET", "remote_address", "192.0.2.7") {
		t.Error("Envoy does not see what the application has spent")
	}
	// A key that a client cuts in two, or a tag that it invents, is text of its own.
	for _, address := range []string{"192.0.2.7|x", "{192.0.2.7}", "192.0.2.7%"} {
		if !passes(t, envoy, "path", "/", "method", "GET", "remote_address", address) {
			t.Errorf("%s counts on another key", address)
		}
	}
}

// Envoy sends the same descriptor for the same client: one counter, with a key that can be looked at.
func TestSeedRow62OneClientIsOneKey(t *testing.T) {
	t.Parallel()
	c := startEnvoyNodes(t, 1)
	envoy, app := envoys(t, c)[0], client{t, c.Addr(0)}
	for range 2 {
		passes(t, envoy, "path", "/a", "method", "GET", "remote_address", "198.51.100.1")
	}
	if states, _ := app.get("edge.address", "198.51.100.1"); uint64(states[0].Used) != 2 {
		t.Errorf("two requests of one client: %v", states)
	}
}

func TestSeedRow63ProductsOfAVendor(t *testing.T) {
	t.Parallel()
	envoy := envoys(t, startEnvoyNodes(t, 1))[0]
	admitted := map[string]int{}
	for range 5 {
		for _, product := range []string{"a", "b"} {
			if passes(t, envoy, "vendor", "acme", "product", product) {
				admitted[product]++
			}
		}
	}
	if admitted["a"] != 3 || admitted["b"] != 3 {
		t.Errorf("a pool of 6 and 4 for each: %v", admitted)
	}
}

// Envoys on three nodes, of which one is killed: never more than the limit, whatever is in doubt. What is in doubt,
// Envoy lets pass unless failure_mode_deny is set, and stint does not count it as admitted.
func TestEnvoysNeverGetMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	c := startEnvoyNodes(t, 3)
	all := envoys(t, c)
	var admitted, doubts, asked atomic.Int64
	var callers sync.WaitGroup
	half := make(chan struct{})
	for i := range 64 {
		callers.Go(func() {
			for over := false; !over; {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				m, err := all[i%3].ShouldRateLimit(ctx, ofEnvoy("stock", "one"))
				cancel()
				switch {
				case err != nil:
					doubts.Add(1)
					i++ // to another node
				case m.OverallCode == rlsv3.RateLimitResponse_OK:
					admitted.Add(1)
				default:
					over = true
				}
				if asked.Add(1) == 400 {
					close(half)
				}
			}
		})
	}
	<-half
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
	states, _ := client{t, c.Addr(0)}.get("edge.thousand", "one")
	if got := admitted.Load(); got > 1000 || got+doubts.Load() < 1000 || uint64(states[0].Used) != 1000 {
		t.Errorf("admitted %d with %d in doubt, and %v is used: the limit is 1000", got, doubts.Load(), states)
	}
}

// A file is taken as a whole or not at all, while Envoy asks.
func TestEnvoyMeetsTheNewRules(t *testing.T) {
	t.Parallel()
	c := startEnvoyNodes(t, 1)
	envoy := envoys(t, c)[0]
	apply := func(change func(string) string) (string, error) {
		file := filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(change(text(t, "testdata/envoy.yaml"))), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(binary(t), "apply", "-f", file, "--addr", c.Addr(0)).CombinedOutput()
		return string(out), err
	}
	login := []string{"path", "/login", "method", "POST", "remote_address", "203.0.113.9"}
	for range 3 {
		passes(t, envoy, login...)
	}
	out, err := apply(func(text string) string {
		return strings.Replace(text, "{policy: edge.login,", "{policy: edge.logn,", 1)
	})
	if err == nil || !strings.Contains(out, `envoy.edge.rules[1].entries[0].policy: `+
		`the file has no policy edge.logn: did you mean edge.login?`) {
		t.Errorf("a file with a mistake: %v %s", err, out)
	}
	if passes(t, envoy, login...) {
		t.Error("a bad file ended the good one")
	}
	if out, err := apply(func(text string) string {
		return strings.Replace(text, "path: \"/login\"", "path: \"/sign-in\"", 1)
	}); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if !passes(t, envoy, login...) {
		t.Error("the old rule is still met")
	}
}
