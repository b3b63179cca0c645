package node

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

const gatesFile = `policies:
  thousand: {limits: [{name: total, quota: 1000, lifetime: {}}]}
  plenty: {limits: [{name: total, quota: 1000000000, lifetime: {}}]}
  login: {security: true, limits: [{name: total, quota: 1000000000, lifetime: {}}]}
gates:
  web:
    trusted_proxies: [127.0.0.0/8]
    request_id: X-Request-Id
    no_match: deny
    routes:
      - {match: {path: /thousand}, fail: closed, entries: [{policy: thousand, key: "{ip}"}]}
      - {match: {path: /open}, entries: [{policy: plenty, key: "{ip}"}]}
      - {match: {path: /closed}, fail: closed, entries: [{policy: plenty, key: "{ip}"}]}
      - {match: {path: /login}, entries: [{policy: login, key: "{ip}"}]}
`

// newGatedTrio is a cluster with a gate.
func newGatedTrio(t testing.TB) *trio {
	t.Helper()
	c := trioToBe(t)
	file := filepath.Join(t.TempDir(), "gates.yaml")
	if err := os.WriteFile(file, []byte(gatesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range c.configs {
		c.configs[i].PoliciesFile = file
	}
	for i := range c.nodes {
		c.start(i)
	}
	c.ready(0, 1, 2)
	return c
}

// atGate asks a node's gate about a request, as Traefik does.
func atGate(t testing.TB, client *http.Client, n *Node, path, id string) (status int, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.APIAddr()+"/gate/web", nil)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": path,
		"X-Forwarded-For": "203.0.113.7", "X-Request-Id": id} {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode, response.Header
}

// Proxies at three nodes let exactly a thousand of 1,600 requests through. One without an answer in the gate's time is
// asked about again under its id, as a proxy that retries does, and counts once.
func TestGatesOfThreeNodesCountAsOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newGatedTrio(t)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dialerOf(c.nodes[0])}}
		defer client.CloseIdleConnections()
		var passed, denied atomic.Int64
		var group sync.WaitGroup
		for caller := range 64 {
			group.Go(func() {
				for i := range 25 {
					id, deadline := fmt.Sprint(caller, "-", i), time.Now().Add(time.Minute)
					for try := caller; ; try++ {
						status, header := atGate(t, client, c.nodes[try%3], "/thousand", id)
						if status == http.StatusServiceUnavailable && time.Now().Before(deadline) {
							continue
						}
						switch {
						case status == http.StatusOK:
							passed.Add(1)
						case status == http.StatusTooManyRequests:
							denied.Add(1)
						default:
							t.Errorf("caller %d: %d %v", caller, status, header)
						}
						break
					}
				}
			})
		}
		group.Wait()
		if passed.Load() != 1000 || denied.Load() != 600 {
			t.Errorf("limit 1000: %d passed and %d were denied, of 1600", passed.Load(), denied.Load())
		}
	})
}

// Without a majority, each route does what it says.
func TestARouteFailsAsItSaysWithoutAMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newGatedTrio(t)
		client := clientOf(c.nodes[0])
		c.stopWithin(5*time.Second, 1, 2) // two at once: the second cannot hand its shards over
		for path, want := range map[string]struct {
			status int
			mark   string
		}{"/open": {200, "open"}, "/closed": {503, ""}, "/login": {503, ""}} {
			var status int
			var mark string
			await.Until(t, path+" fails as it should", func() bool {
				var header http.Header
				status, header = atGate(t, client, c.nodes[0], path, "")
				mark = header.Get("Stint-Failed")
				return status == want.status && mark == want.mark
			}, &status, &mark)
		}
	})
}

// The keys of tokens are there before the first request needs them.
func TestAGateFetchesItsKeysBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	var fetches atomic.Int64
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer keys.Close()
	config := testConfig(t)
	config.PoliciesFile = filepath.Join(t.TempDir(), "gates.yaml")
	text := "policies: {p: {limits: [{name: l, quota: 1, lifetime: {}}]}}\n" +
		"gates: {web: {identity: [jwt], jwt: {jwks: '" + keys.URL +
		"', issuer: i, audience: a}, no_match: deny, routes: [{match: {}, entries: [{policy: p, " +
		"key: '{identity}'}]}]}}\n"
	if err := os.WriteFile(config.PoliciesFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config.SinkAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	n := start(t, config)
	defer stop(t, n)
	await.Until(t, "somebody asks for the keys, and again when that fails", func() bool { return fetches.Load() > 1 })
}

// A writer of policies cannot make a node ask what only the node can reach.
func TestKeysOfGatesAreNotFetchedFromSpecialAddresses(t *testing.T) {
	t.Parallel()
	var fetches atomic.Int64
	serve := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetches.Add(1) })
	plain, secure := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	defer plain.Close()
	defer secure.Close()
	for _, url := range []string{plain.URL, secure.URL} {
		config := testConfig(t)
		var log journal
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		config.PoliciesFile = filepath.Join(t.TempDir(), "gates.yaml")
		text := "policies: {p: {limits: [{name: l, quota: 1, lifetime: {}}]}}\n" +
			"gates: {web: {identity: [jwt], jwt: {jwks: '" + url +
			"', issuer: i, audience: a}, no_match: deny, routes: [{match: {}, entries: [{policy: p, " +
			"key: '{identity}'}]}]}}\n"
		if err := os.WriteFile(config.PoliciesFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		await.Until(t, "the address is refused", func() bool {
			return strings.Contains(log.String(), "--sink-allow does not have it")
		})
		stop(t, n)
	}
	if fetches.Load() != 0 {
		t.Error("it was asked")
	}
}

// A vendor's API key has the tier that its override says, its products share what it has, and each says in its own
// words why it is denied. Without a key the answer is 401, with an unknown one 403.
func TestAnAPIKeyHasItsTierAtAGate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.PoliciesFile = filepath.Join(t.TempDir(), "gates.yaml")
		if err := os.WriteFile(config.PoliciesFile, []byte(`policies:
  vendor:
    unknown_key: deny
    tiers: {pro: {daily: {quota: 3}}}
    headers: [x-quota]
    limits: [{name: daily, quota: 1, lifetime: {}, reason: Daily Quota Exceeded}]
  product: {parent: vendor, limits: [{name: burst, quota: 2, lifetime: {}, reason: Too Many Requests}]}
gates:
  api:
    identity: [{header: X-Api-Key}]
    no_match: deny
    denied: {content_type: text/plain, body: "{reason}"}
    routes:
      - {match: {prefix: /probes}, entries: [{policy: product, key: "{identity}/product:probes"}]}
      - {match: {prefix: /feeds}, entries: [{policy: product, key: "{identity}/product:feeds"}]}
`), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		defer stop(t, n)
		put, err := clientOf(n).Post("http://"+n.APIAddr()+"/stint.v1.PolicyService/PutOverride", "application/json",
			strings.NewReader(
				// SHA-256 of "secret"
				`{"policy":"vendor","key":"key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",`+
					`"tier":"pro"}`))
		if err != nil || put.StatusCode != http.StatusOK {
			t.Fatalf("%v: %+v", err, put)
		}
		put.Body.Close()
		for i, c := range []struct{ path, key, want string }{
			{"/probes", "", "401 "},
			{"/probes", "invented", "403 "},
			{"/probes", "secret", "200 1"},
			{"/probes", "secret", "200 2"},
			{"/probes", "secret", "429 2Too Many Requests"},
			{"/feeds", "secret", "200 3"},
			{"/feeds", "secret", "429 3Daily Quota Exceeded"},
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+n.APIAddr()+"/gate/api"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.key != "" {
				r.Header.Set("X-Api-Key", c.key)
			}
			response, err := clientOf(n).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
				body = nil
			}
			if got := fmt.Sprint(response.StatusCode, " ", response.Header.Get("X-Quota-Used"),
				string(body)); err != nil || got != c.want {
				t.Errorf("request %d, %s: %q, want %q", i+1, c.path, got, c.want)
			}
		}
	})
}

// BenchmarkGate measures questions to the gates of three nodes beside checks in JSON of the same policy and key, 64
// callers each. The two take turns, so that a busy machine slows both.
func BenchmarkGate(b *testing.B) {
	c := newGatedTrio(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	kinds := []struct {
		name string
		ask  func(caller int)
		took []time.Duration
		all  time.Duration
	}{
		{name: "gate", ask: func(caller int) { atGate(b, client, c.nodes[caller%3], "/closed", "") }},
		{name: "json", ask: func(caller int) { checkInJSON(b, client, c.nodes[caller%3]) }},
	}
	const rounds, callers = 10, 64
	for round := range rounds + 1 {
		for i := range kinds {
			begun := time.Now()
			took := together(callers, b.N/rounds/callers+1, kinds[i].ask)
			if round > 0 { // the first one opens connections
				kinds[i].all += time.Since(begun)
				kinds[i].took = append(kinds[i].took, took...)
			}
		}
	}
	for i := range kinds {
		k := &kinds[i]
		slices.Sort(k.took)
		b.ReportMetric(float64(len(k.took))/k.all.Seconds(), k.name+"/s")
		b.ReportMetric(float64(k.took[len(k.took)*99/100].Microseconds())/1000, k.name+"-p99-ms")
	}
	b.ReportMetric(kinds[1].all.Seconds()/kinds[0].all.Seconds(), "gate/json")
}

// together makes callers ask at the same time, each one again and again, and returns how long each answer took.
func together(callers, each int, ask func(caller int)) []time.Duration {
	took := make([]time.Duration, callers*each)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				begun := time.Now()
				ask(caller)
				took[caller*each+i] = time.Since(begun)
			}
		})
	}
	group.Wait()
	return took
}

func checkInJSON(b *testing.B, client *http.Client, n *Node) {
	response, err := client.Post("http://"+n.APIAddr()+"/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(`{"entries":[{"policy":"plenty","key":"ip:203.0.113.7"}]}`))
	if err != nil {
		b.Error(err)
		return
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Errorf("%v: %d", err, response.StatusCode)
	}
}
