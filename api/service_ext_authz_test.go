package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/api/gates"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// reported is what Envoy reports about a request from 203.0.113.7, with headers "Name: value". Lines of one name are
// joined, as Envoy does.
func reported(gate, method, path string, headers ...string) *authv3.CheckRequest {
	h := map[string]string{":path": path, ":method": method}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name = strings.ToLower(name); h[name] != "" {
			value = h[name] + "," + value
		}
		h[name] = value
	}
	m := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Source: from("203.0.113.7"),
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "shop.example", Headers: h}}}}
	if gate != "" {
		m.Attributes.ContextExtensions = map[string]string{"gate": gate}
	}
	return m
}

func from(address string) *authv3.AttributeContext_Peer {
	return &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: address}}}}
}

// forSite marks a header of an allowed request that is for the site.
const forSite = "for the site: "

// outcome is what a visitor gets: the status, the body and the headers in alphabetic order.
func outcome(status int, body string, headers map[string]string) string {
	var text strings.Builder
	fmt.Fprint(&text, status, " ", body)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&text, "\n%s: %s", name, headers[name])
	}
	return text.String()
}

// outcomeByGRPC asks for a request as Envoy does, and reads the answer as Envoy does.
func outcomeByGRPC(ctx context.Context, t *testing.T, conn *grpc.ClientConn, m *authv3.CheckRequest) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	answer, err := authv3.NewAuthorizationClient(conn).Check(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.ValidateAll(); err != nil {
		t.Errorf("Envoy refuses the answer: %v", err)
	}
	headers := map[string]string{}
	code, body := http.StatusOK, ""
	options := answer.GetOkResponse().GetResponseHeadersToAdd()
	for _, o := range answer.GetOkResponse().GetHeaders() {
		headers[forSite+o.Header.Key] = o.Header.Value
	}
	if ok := answer.GetOkResponse(); ok != nil && headers[forSite+gates.FailedHeader] == "" &&
		!slices.Contains(ok.HeadersToRemove, gates.FailedHeader) {
		t.Errorf("a visitor's own %s reaches the site", gates.FailedHeader)
	}
	if answer.GetStatus().GetCode() != 0 {
		denied := answer.GetDeniedResponse()
		code, body, options = int(denied.GetStatus().GetCode()), denied.GetBody(), denied.GetHeaders()
	} else if answer.GetOkResponse() == nil {
		t.Errorf("an answer that is neither: %v", answer)
	}
	for _, o := range options {
		if o.AppendAction != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD || headers[o.Header.Key] != "" {
			t.Errorf("it comes beside another: %v", o)
		}
		headers[o.Header.Key] = o.Header.Value
	}
	return outcome(code, body, headers)
}

// outcomeByHTTP asks for the same request as nginx does.
func (w *world) outcomeByHTTP(gate, method, path string, headers ...string) string {
	w.t.Helper()
	status, header, body := w.ask("/gate/"+gate, by(method, path, headers...)...)
	flat := map[string]string{}
	for name := range header {
		switch {
		case name == "Date", name == "Content-Length", status == 200 &&
			(name == "Cache-Control" || name == "Access-Control-Expose-Headers"):
		case status == 200 && name == "Stint-Failed":
			flat[forSite+name] = header.Get(name)
		default:
			flat[name] = header.Get(name)
		}
	}
	return outcome(status, body, flat)
}

// counted returns what has been decided since the last call.
func (w *world) counted() string {
	w.decider.mu.Lock()
	defer w.decider.mu.Unlock()
	text, err := json.Marshal(w.decider.calls)
	if err != nil {
		w.t.Fatal(err)
	}
	w.decider.calls = nil
	return string(text)
}

// By HTTP and by gRPC, the same request gets the same answer and counts the same entries.
func TestBothDoorsOfAGateAgree(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		set, err := policy.Parse("gates.yaml", []byte(gatePolicies))
		if err != nil {
			t.Fatal(err)
		}
		w.revision = &policy.Revision{Version: 8, Set: set.At(8)}
		deciders := map[string]func(shard.Request) shard.Result{"allowed": allow, "denied": deny}
		for _, code := range []shard.Code{shard.Unavailable, shard.Overloaded, shard.UnknownOutcome, shard.Fault,
			shard.Invalid, shard.IDExpired, shard.IDReused, shard.MemoryFull, shard.KeyNotFound} {
			deciders[fmt.Sprint("failure ", code)] = fail(&shard.Error{Code: code, Message: "something failed"})
		}
		for _, c := range []struct {
			gate, method, path string
			headers            []string
		}{
			{"web", "GET", "/", nil},
			{"web", "HEAD", "/?a=/login", nil},
			{"web", "POST", "/login?next=/", nil},
			{"web", "POST", "//login", nil},
			{"web", "POST", "/%6Cogin/", nil},
			{"web", "POST", "/LOGIN", nil},
			{"web", "POST", "/login%20", nil},
			{"web", "POST", "/login;x=1", nil},
			{"web", "POST", "/login%2F", nil},
			{"web", "POST", "/login!", nil},
			{"web", "POST", "/x/../login", nil},
			{"web", "POST", "/login/..%2fx", nil},
			{"web", "POST", "/login%0a", nil},
			{"web", "POST", "/login#", nil},
			{"web", "POST", `/x\login`, nil},
			{"web", "POST", "/caf\u00e9", nil},
			{"web", "POST", "https://shop.example/login", nil},
			{"web", "POST", "/" + strings.Repeat("x", 9<<10), nil},
			{"web", "OPTIONS", "*", nil},
			{"web", "GET", "/closed", nil},
			{"web", "GET", "/plan/x", []string{"X-Api-Key: secret"}},
			{"web", "POST", "/login", []string{"X-Api-Key: invented"}},
			{"web", "GET", "/", []string{"X-Request-Id: 1"}},
			{"web", "GET", "/closed", []string{"X-Request-Id: 1"}},
			{"s0", "GET", "/", nil},
			{"s0", "GET", "/other", nil},
			{"none", "GET", "/", nil},
			{"direct", "GET", "/", nil}, // which trusts no proxy
		} {
			for name, decide := range deciders {
				w.decider.decide = decide
				want := w.outcomeByHTTP(c.gate, c.method, c.path, c.headers...) + "\n" + w.counted()
				got := outcomeByGRPC(t.Context(), t, conn, reported(c.gate, c.method, c.path, c.headers...)) +
					"\n" + w.counted()
				if got != want {
					t.Errorf("%s, %s %.80s %q at %s: by gRPC\n%s\nby HTTP\n%s",
						name, c.method, c.path, c.headers, c.gate, got, want)
				}
			}
			w.decider.decide = allow
			w.api.registry.gate.admission.taken.Store(entriesUnderWay)
			want := w.outcomeByHTTP(c.gate, c.method, c.path, c.headers...)
			got := outcomeByGRPC(t.Context(), t, conn, reported(c.gate, c.method, c.path, c.headers...))
			w.api.registry.gate.admission.taken.Store(0)
			if got != want {
				t.Errorf("in a full house, %s %.80s at %s: by gRPC\n%s\nby HTTP\n%s",
					c.method, c.path, c.gate, got, want)
			}
		}
		if seen := w.observer.seen(); slices.ContainsFunc(seen,
			func(line string) bool { return strings.HasPrefix(line, "request Check ") }) ||
			!slices.Contains(seen, "request web failed_open") {
			t.Errorf("the observer does not see gates alone: %q", seen)
		}
	})
}

func TestWhatAProxyReportsToAGate(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		rules := strings.Replace(gatePolicies, "  direct:\n",
			"  default:\n    trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]\n", 1)
		set, err := policy.Parse("gates.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		w.revision = &policy.Revision{Version: 8, Set: set.At(8)}
		with := func(m *authv3.CheckRequest, change func(*authv3.AttributeContext)) *authv3.CheckRequest {
			change(m.Attributes)
			return m
		}
		http := func(a *authv3.AttributeContext) *authv3.AttributeContext_HttpRequest { return a.Request.Http }
		for name, c := range map[string]struct {
			m          *authv3.CheckRequest
			status, of string // and the key that is counted
		}{
			"the gate of those who name none": {reported("", "GET", "/"), "200", "ip:203.0.113.7"},
			"a gate by name":                  {reported("s0", "GET", "/"), "200", "ip:203.0.113.7"},
			"nothing":                         {&authv3.CheckRequest{}, "400", ""},
			"an address that Envoy has added": {reported("",
				"GET", "/", "X-Forwarded-For: 198.51.100.1, 203.0.113.7"), "200", "ip:203.0.113.7"},
			"an address that a visitor has": {reported("", "GET", "/", "X-Forwarded-For: 198.51.100.1"), "200",
				"ip:203.0.113.7"},
			"behind a load balancer": {with(reported("", "GET", "/", "X-Forwarded-For: 198.51.100.1"),
				func(a *authv3.AttributeContext) { a.Source = from("10.1.1.1") }), "200", "ip:198.51.100.1"},
			"behind one that Envoy has added": {
				with(reported("", "GET", "/", "X-Forwarded-For: 198.51.100.1, 10.1.1.1"),
					func(a *authv3.AttributeContext) { a.Source = from("10.1.1.1") }), "200", "ip:198.51.100.1"},
			"a network of IPv6": {with(reported("", "GET", "/"), func(a *authv3.AttributeContext) {
				a.Source = from("2001:db8:0:1:2::3")
			}), "200", "ip:2001:db8:0:1::"},
			"a visitor without an address": {with(reported("", "GET", "/", "X-Forwarded-For: 198.51.100.1"),
				func(a *authv3.AttributeContext) { a.Source = nil }), "400", ""},
			"no path":   {reported("", "GET", ""), "400", ""},
			"no method": {reported("", "", "/"), "400", ""},
			"a connection": {with(reported("", "GET", "/"), func(a *authv3.AttributeContext) {
				a.Request = nil
			}), "400", ""},
			"a path in the headers alone": {with(reported("", "GET", "/"), func(a *authv3.AttributeContext) {
				http(a).Path = ""
			}), "400", ""},
			"a visitor that names another gate": {with(reported("", "GET", "/", "Gate: none"),
				func(a *authv3.AttributeContext) { a.Request.Http.Path = "/?gate=none" }), "200", "ip:203.0.113.7"},
			"raw headers": {with(reported("web", "GET", "/plan/x"), func(a *authv3.AttributeContext) {
				http(a).Headers = nil
				http(a).HeaderMap = &corev3.HeaderMap{
					Headers: []*corev3.HeaderValue{{Key: "x-api-key", RawValue: []byte("secret")}}}
			}), "200", "key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"},
			"two raw headers": {with(reported("web", "GET", "/plan/x"), func(a *authv3.AttributeContext) {
				http(a).HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
					{Key: "x-api-key", RawValue: []byte("a")}, {Key: "x-api-key", Value: "b"}}}
			}), "401", ""},
		} {
			w.counted()
			got := outcomeByGRPC(t.Context(), t, conn, c.m)
			key := ""
			if r := w.decider.requests(); len(r) > 0 {
				key = r[0].Entries[0].Key
			}
			if got[:3] != c.status || key != c.of {
				t.Errorf("%s: %s, counted %q, want %s and %q", name, got, key, c.status, c.of)
			}
		}
		w.counted()
		big := reported("", "GET", "/", "Cookie: "+strings.Repeat("x", bodyBytesMax))
		if answer, err := authv3.NewAuthorizationClient(conn).Check(t.Context(),
			big); status.Code(err) != codes.InvalidArgument &&
			answer.GetDeniedResponse().GetStatus().GetCode() != 400 || len(w.decider.requests()) > 0 {
			t.Errorf("a message above the bound: %v %v, counted %v", err, answer, w.decider.requests())
		}
		// An older Envoy sends bytes that are no text, in a message that cannot be read. It would let an error pass,
		// with failure_mode_allow.
		data, err := proto.Marshal(reported("", "POST", "/login_"))
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{bytes.ReplaceAll(data, []byte("_"), []byte("\xff")), data[:len(data)-1]} {
			var answer authv3.CheckResponse
			if err := conn.Invoke(t.Context(), ExtAuthzProcedure, &data, &answer,
				grpc.ForceCodec(rawCodec{})); err != nil ||
				answer.GetDeniedResponse().GetStatus().GetCode() != 400 || answer.GetStatus().GetCode() == 0 {
				t.Errorf("a message that cannot be read: %v %v", err, &answer)
			}
		}
	})
}

// Web pages may not report to a gate, though proxies may ask it by any name.
func TestPagesReportNothingToAGate(t *testing.T) {
	w := newGateWorld(t, nil)
	for host, want := range map[string]int{"evil.example": 421, "": 200} {
		r, err := http.NewRequest(http.MethodPost, w.url+ExtAuthzProcedure, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		if status, _, body := w.send(r); status != want {
			t.Errorf("as %q: %d %s", host, status, body)
		}
	}
	conn := w.dial(strings.TrimPrefix(w.url, "http://"),
		grpc.WithAuthority("outbound_.7403_._.stint.default.svc.cluster.local"))
	if got := outcomeByGRPC(t.Context(), t, conn, reported("web", "GET", "/")); got[:3] != "200" {
		t.Errorf("Istio's name: %s", got)
	}
}

// The proxy's token is in the metadata of its call. Those of its visitors are in the message, and open nothing.
func TestAProxyThatReportsToAGateNeedsAToken(t *testing.T) {
	k := newTokens()
	proxy, other := k.add(t, "proxy", "ns=shop ops=check"), k.add(t, "other", "ns=other ops=check")
	w := newGateWorld(t, k.guard)
	for _, addr := range []string{w.grpcAddr, strings.TrimPrefix(w.url, "http://")} {
		conn := w.dial(addr)
		for _, c := range []struct {
			name, token string
			code        codes.Code
			status      string
		}{
			{"none", "", codes.Unauthenticated, ""},
			{"wrong", "Bearer stint_x", codes.Unauthenticated, ""},
			{"of another namespace", "Bearer " + other, codes.OK, "503"},
			{"right", "Bearer " + proxy, codes.OK, "200"},
		} {
			ctx := t.Context()
			if c.token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.token)
			}
			m := reported("web", "GET", "/", "Authorization: Bearer "+proxy, "Stint-Token: "+proxy)
			if c.code != codes.OK {
				if _, err := authv3.NewAuthorizationClient(conn).Check(ctx, m); status.Code(err) != c.code {
					t.Errorf("%s: %v", c.name, err)
				}
				continue
			}
			if got := outcomeByGRPC(ctx, t, conn, m); got[:3] != c.status || strings.Contains(got, "Stint-Failed") {
				t.Errorf("%s: %s, want %s", c.name, got, c.status)
			}
		}
	}
}
