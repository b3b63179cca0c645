package node

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// stubborn asks a node by every port from its first moment on until it is ready, and never a second time about one
// request. A client that asks for one node cannot ask another one instead.
func (c *trio) stubborn(i int, token string) {
	c.t.Helper()
	c.start(i)
	n := c.nodes[i]
	done := make(chan struct{})
	var asking sync.WaitGroup
	asks := map[string]func(ctx context.Context) error{
		"http": func(context.Context) error {
			if status := spendAs(n, token); status != http.StatusOK {
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		// only while no token is asked for it has to be one of the server's
		"http by a name": func(ctx context.Context) error {
			if token == "" {
				return nil
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.APIAddr()+"/metrics", nil)
			if err != nil {
				return err
			}
			r.Host = "stint.example.com"
			r.Header.Set("Authorization", "Bearer "+token)
			response, err := clientOf(n).Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", response.StatusCode)
			}
			return nil
		},
		"grpc": func(ctx context.Context) error {
			conn, err := grpc.NewClient("passthrough:///"+n.GRPCAddr(),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpcDialer(n))
			if err != nil {
				return err
			}
			defer conn.Close()
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, plentyOf("k"), &stintv1.CheckResponse{})
		},
		"redis": func(ctx context.Context) error {
			pool := redis.NewClient(&redis.Options{Addr: n.RedisAddr(), Password: token, MaxRetries: -1,
				Dialer: redisDialer(c.t, nil)})
			defer pool.Close()
			return pool.Incr(ctx, "k").Err()
		},
	}
	for port, ask := range asks {
		asking.Go(func() {
			for asked := 0; ; asked++ {
				if err := ask(c.t.Context()); err != nil {
					c.t.Errorf("%s, request %d: %v", port, asked, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
				breathe()
			}
		})
	}
	c.ready(i)
	close(done)
	asking.Wait()
}

// What a node is asked before it knows which tokens are valid waits until it does: it is neither refused nor blamed on
// the client.
func TestAStartingNodeRefusesNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.configs {
			c.configs[i].GRPCAddr, c.configs[i].RedisAddr = "127.0.0.1:0", "127.0.0.1:0"
		}
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		again := func(token string) {
			for i := range c.nodes {
				c.stop(i)
				c.stubborn(i, token)
			}
		}
		again("")
		c.stubborn(c.add("n4"), "") // it belongs to no cluster when it is asked first
		root := createToken(t, c.configs[0].DataDir, "root", "admin")
		c.awaitStatus("every node knows the token", root, http.StatusOK, 0, 1, 2, 3)
		again(root)
	})
}
