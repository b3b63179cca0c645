package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// On every port, a client that has shown its token or its role is no stranger any more, and one that has not remains
// one.
func TestTheFirstRequestWithATokenMakesAConnectionNoStrangers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.GRPCAddr, config.RedisAddr = "127.0.0.1:0", "127.0.0.1:0"
		n := start(t, config)
		t.Cleanup(func() { stop(t, n) })
		token := createToken(t, config.DataDir, "root", "admin")
		unproven := func(api, redis int) func() bool {
			return func() bool {
				return n.ports.limits.api.Unproven() == api && n.ports.limits.redis.Unproven() == redis
			}
		}
		for _, addr := range []string{n.APIAddr(), n.GRPCAddr(), n.RedisAddr()} {
			stranger, err := dialerOf(n)(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
		}
		await.Until(t, "strangers on each port", unproven(2, 1))

		for _, version := range []int{1, 2} {
			transport := &http.Transport{Protocols: new(http.Protocols), DialContext: dialerOf(n)}
			transport.Protocols.SetHTTP1(version == 1)
			transport.Protocols.SetUnencryptedHTTP2(version == 2)
			defer transport.CloseIdleConnections()
			ask, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://"+n.APIAddr()+stintv1connect.LimitServiceCheckProcedure,
				strings.NewReader(`{"entries":[{"policy":"plenty","key":"k"}]}`))
			ask.Header.Set("Content-Type", "application/json")
			ask.Header.Set("Authorization", "Bearer "+token)
			response, err := (&http.Client{Transport: transport}).Do(ask)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatal(err, response)
			}
			defer response.Body.Close() // and the connection stays open
		}
		for _, addr := range []string{n.APIAddr(), n.GRPCAddr()} {
			conn, err := grpc.NewClient("passthrough:///"+addr,
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpcDialer(n))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
			if err := conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, plentyOf("k"),
				&stintv1.CheckResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		pool := redis.NewClient(&redis.Options{Addr: n.RedisAddr(), Password: token, MaxRetries: -1,
			Dialer: redisDialer(t, nil)})
		defer pool.Close()
		if err := pool.Incr(t.Context(), "k").Err(); err != nil {
			t.Fatal(err)
		}
		if !unproven(2, 1)() { // at once: a while later the strangers have been closed
			t.Errorf("%d and %d strangers are left, want 2 and 1",
				n.ports.limits.api.Unproven(), n.ports.limits.redis.Unproven())
		}
	})
}

func TestARoleIsNoStranger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		bySocket(t, s.config.DataDir, "TokenService/Create",
			map[string]any{"name": "ci", "role": true, "grants": grants{{"ops": []string{"admin"}}}})
		secure := s.ca.Client(testcert.URIs("stint://role/ci"))
		for _, addr := range []string{s.APIAddr(), s.GRPCAddr()} {
			if err := s.grpc(addr, credentials.NewTLS(secure)).Invoke(t.Context(),
				stintv1connect.LimitServiceCheckProcedure, plentyOf("k"), &stintv1.CheckResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DialContext: dialerOf(s.Node)}}
		defer client.CloseIdleConnections()
		response, err := client.Get(fmt.Sprintf("https://%s/metrics", s.APIAddr()))
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(err, response)
		}
		defer response.Body.Close()
		if err := s.redis(func(o *redis.Options) { o.TLSConfig = secure }).Incr(t.Context(), "k").Err(); err != nil {
			t.Fatal(err)
		}
		// at once, as above
		if api, redis := s.ports.limits.api.Unproven(), s.ports.limits.redis.Unproven(); api > 0 || redis > 0 {
			t.Errorf("%d and %d are strangers", api, redis)
		}
	})
}
