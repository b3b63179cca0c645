package api

import (
	"bufio"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// gatePolicies are the policies of the tests of gates: the connections of the tests come from 127.0.0.1.
const gatePolicies = `
policies:
  per-ip: {headers: [x-ratelimit], limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}
  login: {security: true, limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}
  plan: {unknown_key: deny, limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}
gates:
  web:
    namespace: shop
    trusted_proxies: [127.0.0.0/8]
    request_id: X-Request-Id
    identity: [{header: X-Api-Key}, ip]
    no_match: allow
    routes:
      - {match: {method: POST, path: /login}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {path: /closed}, fail: closed, entries: [{policy: per-ip, key: "{ip}"}]}
      - {match: {prefix: /plan/}, entries: [{policy: plan, key: "{identity}"}, {policy: per-ip, key: "{ip}"}]}
      - {match: {prefix: /}, entries: [{policy: per-ip, key: "{ip}"}]}
  s0:
    trusted_proxies: [127.0.0.0/8]
    no_match: deny
    denied: {content_type: application/json, body: '{"error":"rate_limited"}'}
    routes:
      - {match: {path: /}, entries: [{policy: per-ip, key: "{ip}"}]}
  direct:
    no_match: deny
    routes:
      - {match: {path: /}, entries: [{policy: per-ip, key: "{ip}"}]}
`

// newGateWorld makes a world with gates.
func newGateWorld(t *testing.T, guard *auth.Guard) *world {
	t.Helper()
	set, err := policy.Parse("gates.yaml", []byte(gatePolicies))
	if err != nil {
		t.Fatal(err)
	}
	w := newGuardedWorld(t, guard)
	w.revision = &policy.Revision{Version: 8, Set: set.At(8)}
	return w
}

// ask asks a gate as a proxy does, with headers "Name: value".
func (w *world) ask(gate string, headers ...string) (int, http.Header, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), await.Patience) // a gate that does not answer fails the test
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+gate, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return w.send(r)
}

// by are the headers of nginx about a request.
func by(method, uri string, more ...string) []string {
	return append([]string{"X-Original-Method: " + method, "X-Original-URI: " + uri, "X-Forwarded-For: 203.0.113.7"},
		more...)
}

func TestAGateCountsWhatItsRouteSays(t *testing.T) {
	const apiKey = "key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"
	for name, c := range map[string]struct {
		gate    string
		headers []string
		status  int
		want    string // policy, key and cost of each entry
	}{
		"nginx": {"/gate/web", by("POST", "/login?next=/"), 200, "login ip:203.0.113.7 1"},
		"ingress-nginx": {"/gate/web", []string{"X-Original-Method: POST",
			"X-Original-URL: https://a.b/login", "X-Forwarded-For: 203.0.113.7"}, 200, "login ip:203.0.113.7 1"},
		"Traefik and Caddy": {"/gate/web", []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login",
			"X-Forwarded-For: 203.0.113.7"}, 200, "login ip:203.0.113.7 1"},
		"Envoy": {"/gate/web/plan", []string{"X-Forwarded-For: 203.0.113.7", "X-Api-Key: secret"},
			200, "plan " + apiKey + " 1, per-ip ip:203.0.113.7 1"},
		"Envoy, with slashes": {"/gate/web//plan//x", []string{"X-Forwarded-For: 203.0.113.7",
			"X-Api-Key: secret"}, 200, "per-ip ip:203.0.113.7 1, plan " + apiKey + " 1"},
		"a way up":        {"/gate/web/plan/../x", []string{"X-Forwarded-For: 203.0.113.7"}, 400, ""},
		"a hidden way up": {"/gate/web", by("POST", "/login/..%2fx"), 400, ""},
		"two readings":    {"/gate/web", by("POST", "/login;x=1"), 200, "per-ip ip:203.0.113.7 1, login ip:203.0.113.7 1"},
		"a host that ends the path": {
			"/gate/web",
			[]string{"X-Original-Method: POST",
				"X-Original-URL: https://a?b/login", "X-Forwarded-For: 203.0.113.7"}, 400, ""},
		"a key where none is known": {"/gate/web", by("POST", "/login", "X-Api-Key: invented"), 200,
			"login ip:203.0.113.7 1"},
		"two keys": {"/gate/web", by("GET", "/plan/x", "X-Api-Key: a", "X-Api-Key: b"), 401, ""},
		"another proxy's headers": {"/gate/web",
			by("POST", "/login", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /free"), 400, ""},
		"no method":  {"/gate/web", []string{"X-Original-URI: /login"}, 400, ""},
		"no URI":     {"/gate/web", nil, 400, ""},
		"no address": {"/gate/s0", []string{"X-Original-Method: GET", "X-Original-URI: /"}, 400, ""},
		"an address that is garbage": {"/gate/s0",
			[]string{"X-Original-Method: GET", "X-Original-URI: /", "X-Forwarded-For: 203.0.113.7, x"}, 400, ""},
		"no route":             {"/gate/s0", by("GET", "/other"), 403, ""},
		"no such gate":         {"/gate/none", by("GET", "/"), 404, ""},
		"nobody is trusted":    {"/gate/direct", by("POST", "/login"), 400, ""},
		"a visitor for itself": {"/gate/direct", nil, 200, "per-ip ip:127.0.0.1 1"},
	} {
		w := newGateWorld(t, nil)
		status, _, body := w.ask(c.gate, c.headers...)
		var counted []string
		for _, r := range w.decider.requests() {
			for _, e := range r.Entries {
				counted = append(counted, fmt.Sprint(e.Policy, " ", e.Key, " ", e.Cost))
			}
		}
		if got := strings.Join(counted, ", "); status != c.status || got != c.want {
			t.Errorf("%s: %d %q, counted %q, want %d and %q", name, status, body, got, c.status, c.want)
		}
	}
}

func TestAGateAnswersEachProxyInItsWay(t *testing.T) {
	w := newGateWorld(t, nil)
	status, header, body := w.ask("/gate/s0", by("GET", "/")...)
	if status != 200 || header.Get("X-Ratelimit-Remaining") != "99" || header.Get("Cache-Control") != "no-store" ||
		body != "" {
		t.Errorf("allowed: %d %v %q", status, header, body)
	}
	if r := w.decider.requests()[0]; r.Namespace != shard.DefaultNamespace || r.ID != "" {
		t.Errorf("counted %+v", r)
	}
	w.decider.decide = deny
	status, header, body = w.ask("/gate/s0", by("GET", "/")...)
	if status != 429 || body != `{"error":"rate_limited"}` || header.Get("Content-Type") != "application/json" ||
		header.Get("Retry-After") != "60" || header.Get("X-Ratelimit-Limit") != "100" ||
		header.Get("X-Ratelimit-Remaining") != "0" ||
		header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(header.Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Errorf("denied as in S0: %d %v %q", status, header, body)
	}
	status, header, body = w.ask("/gate/web", by("GET", "/")...)
	var p struct {
		Type             string
		Status           int
		ViolatedPolicies []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != 429 ||
		header.Get("Content-Type") != "application/problem+json" ||
		p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p.Status != 429 ||
		!slices.Equal(p.ViolatedPolicies, []string{"per-ip/minute"}) {
		t.Errorf("denied with a problem document: %v: %d %v %q", err, status, header, body)
	}
	status, header, _ = w.ask("/gate/s0?deny=403", by("GET", "/")...)
	if status != 403 || header.Get("X-Stint-Status") != "429" ||
		header.Get("X-Stint-Body") != `{"error":"rate_limited"}` || header.Get("Retry-After") != "60" {
		t.Errorf("denied for nginx: %d %v", status, header)
	}
	w.decider.decide = fail(&shard.Error{Code: shard.KeyNotFound, Message: "no override"})
	if status, _, _ = w.ask("/gate/web", by("GET", "/plan/x", "X-Api-Key: invented")...); status != 403 {
		t.Errorf("an unknown key: %d", status)
	}
	if status, header, _ = w.ask("/gate/web?deny=403", by("GET", "/plan/x", "X-Api-Key: invented")...); status != 403 ||
		header.Get("X-Stint-Status") != "403" {
		t.Errorf("an unknown key, for nginx: %d %v", status, header)
	}
}

// A failure of ours is no denial, and passes only if the gate says so, with a mark.
func TestAGateFailsAsItsRouteSays(t *testing.T) {
	w := newGateWorld(t, nil)
	for _, err := range []*shard.Error{
		{Code: shard.Unavailable, Message: "no majority"}, {Code: shard.Overloaded, Message: "busy"},
		{Code: shard.UnknownOutcome, Message: "lost"}, {Code: shard.Fault, Message: "a defect"},
	} {
		w.decider.decide = fail(err)
		status, header, _ := w.ask("/gate/web", by("GET", "/")...)
		if status != 200 || header.Get("Stint-Failed") != "open" {
			t.Errorf("%s, open: %d %v", err, status, header)
		}
		for _, closed := range [][]string{by("GET", "/closed"), by("POST", "/login")} {
			status, header, body := w.ask("/gate/web", closed...)
			if status != 503 || header.Get("Retry-After") != "1" ||
				!strings.Contains(body, "#temporary-reduced-capacity") || header.Get("Stint-Failed") != "" {
				t.Errorf("%s, %v: %d %v %q", err, closed, status, header, body)
			}
			status, header, _ = w.ask("/gate/web?deny=403", closed...)
			if status != 403 || header.Get("X-Stint-Status") != "503" {
				t.Errorf("%s, %v, for nginx: %d %v", err, closed, status, header)
			}
		}
	}
	for _, code := range []shard.Code{shard.Invalid, shard.PolicyNotFound, shard.IDReused, shard.IDExpired,
		shard.MemoryFull} {
		w.decider.decide = fail(&shard.Error{Code: code, Message: "not a failure of ours alone"})
		if status, header, _ := w.ask("/gate/web", by("GET", "/")...); status != 503 ||
			header.Get("Stint-Failed") != "" || header.Get("Retry-After") != "1" {
			t.Errorf("code %d opens: %d %v", code, status, header)
		}
	}
	if seen := w.observer.seen(); !slices.Contains(seen, "request web failed_open") ||
		!slices.Contains(seen, "request web unavailable") {
		t.Errorf("the observer saw %q", seen)
	}
}

// A shard hears of new policies a moment later than the node whose gate names one of them.
func TestAGateWaitsForTheShardToAdoptItsPolicies(t *testing.T) {
	for _, route := range [][]string{by("GET", "/"), by("POST", "/login")} {
		w := newGateWorld(t, nil)
		asked := 0
		w.decider.decide = func(r shard.Request) shard.Result {
			if asked++; asked <= 2 {
				return shard.Result{Err: &shard.Error{Code: shard.PolicyNotFound, Message: "no such policy"}}
			}
			return deny(r)
		}
		if status, header, body := w.ask("/gate/web", route...); status != 429 || asked != 3 {
			t.Errorf("%v: asked %d times: %d %v %q", route, asked, status, header, body)
		}
	}
}

func TestAGateWithAnIDCountsOnce(t *testing.T) {
	w := newGateWorld(t, nil)
	ids := map[string]bool{}
	for _, headers := range [][]string{by("GET", "/", "X-Request-Id: 1"), by("GET", "/", "X-Request-Id: 1"),
		by("GET", "/", "X-Request-Id: 2"), by("POST", "/login", "X-Request-Id: 1")} {
		w.ask("/gate/web", headers...)
	}
	for _, r := range w.decider.requests() {
		ids[r.ID] = true
		if !strings.HasPrefix(r.ID, "gate:") || len(r.ID) > idBytesMax {
			t.Errorf("the id is %q", r.ID)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d ids of three requests: %v", len(ids), ids)
	}
}

func TestAGateAsksForTheTokenOfTheProxy(t *testing.T) {
	k := newTokens()
	proxy, other := k.add(t, "proxy", "ns=shop ops=check"), k.add(t, "other", "ns=other ops=check")
	w := newGateWorld(t, k.guard)
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"none":                    {nil, 401},
		"wrong":                   {[]string{"Stint-Token: stint_x"}, 401},
		"empty":                   {[]string{"Stint-Token: "}, 401},
		"twice":                   {[]string{"Stint-Token: " + proxy, "Stint-Token: " + proxy}, 401},
		"in the visitor's header": {[]string{"Authorization: Bearer " + proxy}, 401},
		"of another namespace":    {[]string{"Stint-Token: " + other}, 503},
		"right":                   {[]string{"Stint-Token: " + proxy}, 200},
		"right, beside a visitor's": {[]string{"Stint-Token: " + proxy, "Authorization: Bearer x",
			"Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site"}, 200},
	} {
		status, header, body := w.ask("/gate/web", append(by("GET", "/"), c.headers...)...)
		if status != c.status || header.Get("Stint-Failed") != "" {
			t.Errorf("%s: %d %v %q, want %d", name, status, header, body, c.status)
		}
	}
}

// A proxy may ask with its visitor's method and content type. In the answer to gRPC, and to a stream, an error has the
// status 200: that would let the visitor pass.
func TestARefusedProxyNeverPassesItsVisitor(t *testing.T) {
	k := newTokens()
	other := k.add(t, "other", "ns=shop ops=read")
	w := newGateWorld(t, k.guard)
	for token, want := range map[string]int{"": 401, "stint_x": 401, other: 403} {
		for _, kind := range []string{"application/grpc", "application/grpc-web+proto", "application/connect+json",
			"application/json", "text/plain", ""} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/gate/web/login", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {kind}, "Stint-Token": {token}, "X-Forwarded-For": {"203.0.113.7"}}
			if token == "" {
				delete(r.Header, "Stint-Token")
			}
			if status, _, body := w.send(r); status != want || body == "" {
				t.Errorf("%q as %q: %d %q, want %d", token, kind, status, body, want)
			}
		}
	}
}

// A visitor waits for the gate, and no longer than its own time: the decider here never decides.
func TestAGateHasItsOwnTime(t *testing.T) {
	w := newGateWorld(t, nil)
	w.gated("ip:203.0.113.7")
	if status, header, _ := w.ask("/gate/web", by("GET", "/")...); status != 200 ||
		header.Get("Stint-Failed") != "open" {
		t.Errorf("open: %d %v", status, header)
	}
	if status, _, _ := w.ask("/gate/web", by("POST", "/login")...); status != 503 {
		t.Errorf("closed: %d", status)
	}
}

// patientDecider decides when the caller has sent its last byte.
type patientDecider func(shard.Request) shard.Result

func (d patientDecider) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	<-ctx.Done()
	return []shard.Result{d(requests[0])}
}

// A proxy that has closed its sending side may still wait for the answer. There is one, and it never passes without a
// decision.
func TestAGateAnswersWhoSendsNoMore(t *testing.T) {
	for want, decide := range map[int]patientDecider{
		503: fail(&shard.Error{Code: shard.Unavailable, Message: "too late"}),
		429: deny,
		200: allow,
	} {
		w := newGateWorld(t, nil)
		w.decider.instead = decide
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /gate/web HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", strings.Join(by("GET", "/"), "\r\n"))
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want || answer.Header.Get("Cache-Control") != "no-store" ||
			answer.Header.Get("Stint-Failed") != "" {
			t.Errorf("%d %v, want %d", answer.StatusCode, answer.Header, want)
		}
		answer.Body.Close()
	}
}

// A token is checked against keys that are fetched from a server; while there are none, it cannot be checked, which is
// no denial.
func TestAGateKnowsTheUserOfAToken(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"a","n":%q,"e":"AQAB"}]}`,
			base64.RawURLEncoding.EncodeToString(key.N.Bytes()))
	}))
	defer keys.Close()
	sign := func(subject string) string {
		text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"a"}`)) + "." +
			base64.RawURLEncoding.EncodeToString(
				fmt.Appendf(nil, `{"iss":"https://id.example","aud":"shop","sub":%q,"exp":%d}`,
					subject, time.Now().Add(time.Hour).Unix()))
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + base64.RawURLEncoding.EncodeToString(signature)
	}
	gate := func(jwks string) *policy.Set {
		set, err := policy.Parse("gates.yaml", []byte(`
policies:
  per-user: {limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}
  login: {security: true, limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}
gates:
  web:
    identity: [jwt, ip]
    jwt: {jwks: "`+jwks+`", issuer: "https://id.example", audience: shop}
    no_match: deny
    routes:
      - {match: {prefix: /login}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {}, entries: [{policy: per-user, key: "{identity}"}]}
  reports:
    trusted_proxies: [127.0.0.0/8]
    identity: [jwt]
    jwt: {jwks: "`+jwks+`", issuer: "https://id.example", audience: shop}
    no_match: deny
    routes: [{match: {}, entries: [{policy: per-user, key: "{identity}"}]}]
`))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	w := newGateWorld(t, nil)
	defer w.api.Wait()
	w.revision = &policy.Revision{Version: 9, Set: gate(keys.URL).At(9)}
	await.Until(t, "the keys are there", func() bool {
		status, header, _ := w.ask("/gate/web", "Authorization: Bearer "+sign("ann"))
		return status == 200 && header.Get("Stint-Failed") == ""
	})
	if r := w.decider.requests(); r[0].Entries[0].Key != "user:ann" {
		t.Errorf("counted %+v", r[0])
	}
	conn := w.dial(w.grpcAddr)
	w.counted()
	if got := outcomeByGRPC(t.Context(), t, conn, reported("reports",
		"GET", "/", "Authorization: Bearer "+sign("bob"))); got != "200 " ||
		w.decider.requests()[0].Entries[0].Key != "user:bob" {
		t.Errorf("by gRPC: %s %+v", got, w.decider.requests())
	}
	forged := sign("ann")
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	if got := outcomeByGRPC(t.Context(), t, conn, reported("reports",
		"GET", "/", "Authorization: Bearer "+forged)); got[:3] != "401" ||
		!strings.Contains(got, "Www-Authenticate: Bearer") {
		t.Errorf("a forged token by gRPC: %s", got)
	}
	status, header, body := w.ask("/gate/web?deny=403", "Authorization: Bearer "+forged)
	if status != 401 || header.Get("WWW-Authenticate") != "Bearer" ||
		header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a forged token: %d %v %q", status, header, body)
	}
	w.revision = &policy.Revision{Version: 10, Set: gate("http://127.0.0.1:1/keys").At(10)}
	if status, header, _ = w.ask("/gate/web", "Authorization: Bearer "+sign("ann")); status != 200 ||
		header.Get("Stint-Failed") != "open" {
		t.Errorf("without keys: %d %v", status, header)
	}
	if status, _, _ = w.ask("/gate/web/login", "Authorization: Bearer "+sign("ann")); status != 503 {
		t.Errorf("without keys, and for security: %d", status)
	}
	if status, header, _ = w.ask("/gate/web"); status != 200 || header.Get("Stint-Failed") != "" {
		t.Errorf("without a token: %d %v", status, header)
	}
}

// The body of the request that a proxy asks about stays unread, and huge headers are refused before anything is
// counted.
func TestAGateReadsNoBodyAndNoHugeHeaders(t *testing.T) {
	w := newGateWorld(t, nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/gate/direct", unread{t})
	r.RemoteAddr = "192.0.2.1:1"
	answer := httptest.NewRecorder()
	if w.api.ServeHTTP(answer, r); answer.Code != http.StatusForbidden && answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	before := len(w.decider.requests())
	if status, _, _ := w.ask("/gate/web", append(by("GET", "/"),
		"Cookie: "+strings.Repeat("x", 100<<10))...); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("100 KiB of cookies: %d", status)
	}
	if status, _, _ := w.ask("/gate/web", "X-Original-Method: GET", "X-Original-URI: /",
		"X-Forwarded-For: "+strings.Repeat("10.0.0.1, ", 5000)+"203.0.113.7"); status != 200 {
		t.Errorf("50 KiB of addresses: %d", status)
	}
	if got := len(w.decider.requests()) - before; got != 1 {
		t.Errorf("%d requests were decided", got)
	}
}

// A body that was announced may never come: HAProxy and Envoy can pass the headers of one on, without it.
func TestAGateDoesNotWaitForABody(t *testing.T) {
	w := newGateWorld(t, nil)
	for _, announced := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(await.Patience)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /gate/web HTTP/1.1\r\nHost: a\r\n%s\r\n%s\r\n\r\n",
			strings.Join(by("GET", "/"), "\r\n"), announced)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", announced, err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", announced, answer.StatusCode)
		}
	}
}

// Answers for nginx fit one header each, whatever the body is.
