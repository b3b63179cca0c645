package node

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// A client certificate proves a role, on every port; a role is worth what its record grants.
func TestARoleMayDoWhatItsRecordSays(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		ci := bySocket(t, s.config.DataDir, "TokenService/Create", map[string]any{"name": "ci", "role": true,
			"grants": grants{{"keys": []string{"ci:*"}, "ops": []string{"check"}}}})
		if ci["token"] != "" {
			t.Errorf("a role has the secret %q", ci["token"])
		}
		for _, c := range []struct {
			role, key string
			status    int
			code      codes.Code
			redis     string
		}{
			{"ci", "ci:1", http.StatusOK, codes.OK, ""},
			{"ci", "web:1", http.StatusForbidden, codes.PermissionDenied, "NOPERM"},
			{"nobody", "ci:1", http.StatusUnauthorized, codes.Unauthenticated, "NOAUTH"},
			{"", "ci:1", http.StatusUnauthorized, codes.Unauthenticated, "NOAUTH"},
		} {
			secure := s.ca.Trusting()
			if c.role != "" {
				secure = s.ca.Client(testcert.URIs("stint://role/" + c.role))
			}
			if got := s.spendOver(secure, c.key); got != c.status {
				t.Errorf("role %q on %s over HTTP: %d, want %d", c.role, c.key, got, c.status)
			}
			for _, addr := range []string{s.APIAddr(), s.GRPCAddr()} {
				err := s.grpc(addr, credentials.NewTLS(secure)).Invoke(t.Context(),
					stintv1connect.LimitServiceCheckProcedure, plentyOf(c.key), &stintv1.CheckResponse{})
				if status.Code(err) != c.code {
					t.Errorf("role %q on %s over gRPC: %v, want %v", c.role, c.key, err, c.code)
				}
			}
			err := s.redis(func(o *redis.Options) { o.TLSConfig = secure }).Incr(t.Context(), c.key).Err()
			if c.redis == "" && err != nil || c.redis != "" &&
				(err == nil || !strings.HasPrefix(err.Error(), c.redis)) {
				t.Errorf("role %q on %s over Redis's protocol: %v, want %q", c.role, c.key, err, c.redis)
			}
		}
	})
}

// spendOver checks a key of policy plenty over HTTP and returns the status.
func (s *secured) spendOver(secure *tls.Config, key string) int {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true,
		DialContext: dialerOf(s.Node)}}
	response, err := client.Post("https://"+s.APIAddr()+"/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(fmt.Sprintf(`{"entries":[{"policy":"plenty","key":%q}]}`, key)))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// A port that others can reach serves no caller before there is a token, and probes all the same.
func TestWithoutATokenAPortThatOthersReachAnswersProbesAndAnEmptyPage(t *testing.T) {
	t.Parallel()
	s := startSecured(t, func(c *Config) { c.APIAddr = "0.0.0.0:0" })
	_, port, _ := bytes.Cut([]byte(s.APIAddr()), []byte("]:"))
	if len(port) == 0 {
		_, port, _ = bytes.Cut([]byte(s.APIAddr()), []byte(":"))
	}
	get := func(path string) int {
		response, err := s.http(1).Get("https://127.0.0.1:" + string(port) + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 200, "/ui/": 200, "/ui/ui.js": 200,
		"/metrics": 401, "/openapi.yaml": 401, "/nothing": 401, "/gate/web": 401,
		stintv1connect.LimitServiceGetProcedure: 401} {
		if got := get(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if s.config.portOf("127.0.0.1:1") != auth.Loopback || s.config.portOf("0.0.0.0:1") != auth.Public {
		t.Error("ports are taken for others")
	}
}
