package node

import (
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/stint-io/stint/shard"
)

const loginGate = `policies:
  login: {security: true, limits: [{name: l, quota: 5, lifetime: {}}]}
gates:
  default:
    trusted_proxies: [127.0.0.0/8]
    no_match: allow
    routes: [{match: {method: POST, path: /login}, entries: [{policy: login, key: "{ip}"}]}]
`

// A gate has three ways in: HTTP, gRPC on the same port, and the port for gRPC alone. One visitor tries to log in
// through all of them at once, in many spellings, some of which are refused: five attempts pass, no more and no fewer.
func TestWaysToAGateShareItsCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.GRPCAddr = "127.0.0.1:0"
		if err := os.WriteFile(config.PoliciesFile, []byte(loginGate), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		defer stop(t, n)
		api := dialGRPCAt(t, n, n.APIAddr())
		byGRPC := func(conn *grpc.ClientConn) func(path string) int {
			envoy := authv3.NewAuthorizationClient(conn)
			return func(path string) int {
				answer, err := envoy.Check(t.Context(), loginTo(path))
				if err != nil {
					t.Error(err)
				}
				if answer.GetOkResponse() != nil {
					return http.StatusOK
				}
				return int(answer.GetDeniedResponse().GetStatus().GetCode())
			}
		}
		ways := []func(path string) int{byGRPC(api), byGRPC(dialGRPC(t, n)),
			func(path string) int { return askGate(t, n, path) }}
		paths := []string{"/login", "//login", "/%6Cogin", "/LOGIN/", "/login;x=1", "/login%20", "/login!",
			"/login?next=/", "/x/../login", "/login%0a"}
		var passed, denied, refused atomic.Int64
		var callers sync.WaitGroup
		for i := range len(ways) * len(paths) {
			callers.Go(func() {
				switch code := ways[i%len(ways)](paths[i/len(ways)]); code {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				case http.StatusBadRequest:
					refused.Add(1)
				default:
					t.Errorf("%s: %d", paths[i/len(ways)], code)
				}
			})
		}
		callers.Wait()
		if passed.Load() != 5 || denied.Load() != 19 || refused.Load() != 6 {
			t.Errorf("%d passed, %d were denied, %d refused", passed.Load(), denied.Load(), refused.Load())
		}
		if r := ask(n, shard.Get, "login", "ip:203.0.113.7"); r.Err != nil || r.Decision.Limits[0].Used != 5 {
			t.Errorf("used: %+v", r)
		}
	})
}

// loginTo is what Envoy reports about an attempt to log in.
func loginTo(path string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "203.0.113.7"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: http.MethodPost, Host: "shop.example", Path: path}}}}
}

// askGate asks about the same attempt as nginx does.
func askGate(t *testing.T, n *Node, path string) int {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.APIAddr()+"/gate/default", nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	r.Header = http.Header{"X-Original-Method": {"POST"}, "X-Original-Uri": {path}, "X-Forwarded-For": {"203.0.113.7"}}
	answer, err := clientOf(n).Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
