package client

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// slowNode answers everything, after a while.
type slowNode struct {
	stintv1connect.UnimplementedLimitServiceHandler
	took  time.Duration
	asked int
}

func (s *slowNode) Settle(
	context.Context, *connect.Request[stintv1.SettleRequest],
) (*connect.Response[stintv1.SettleResponse], error) {
	s.asked++
	time.Sleep(s.took)
	return connect.NewResponse(&stintv1.SettleResponse{Decision: &stintv1.Decision{Allowed: true}}), nil
}

// serveOn serves nodes in memory, by name, and returns a client of the transport that New makes.
func serveOn(t *testing.T, n *memnet.Net, nodes map[string]*slowNode, addresses ...string) *Client {
	transport := newTransport(nil)
	way := n.Listen("client")
	transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return way.Dial(strings.TrimSuffix(addr, ":80"), dialWithin)
	}
	for name, node := range nodes {
		mux := http.NewServeMux()
		mux.Handle(stintv1connect.NewLimitServiceHandler(node))
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: mux, Protocols: &protocols}
		go server.Serve(n.Listen(name))
		t.Cleanup(func() { server.Close() })
	}
	c, err := New(Config{Addresses: addresses, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); transport.CloseIdleConnections() })
	return c
}

// A node that hangs refuses nothing: no packet comes back. The next address is asked, and the callers after that do not
// wait for the silent one.
func TestANodeThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, nodes := memnet.New(), map[string]*slowNode{"a": {}, "b": {}}
		c := serveOn(t, n, nodes, "http://a", "http://b")
		settle := func() time.Duration {
			begun := time.Now()
			if d, err := c.Settle(t.Context(), &stintv1.SettleRequest{}); err != nil || !d.Allowed {
				t.Errorf("%v %v after %v", d, err, time.Since(begun))
			}
			return time.Since(begun)
		}
		settle()
		n.Cut("a", "client")
		settle()
		if !c.owners.shuns("http://a") {
			t.Error("the silent node would be asked about the keys that it owns")
		}
		if took := settle(); took > 0 || nodes["b"].asked != 2 {
			t.Errorf("the second call took %v, and %d calls reached the node that lives", took, nodes["b"].asked)
		}
		n.Heal()
	})
}

// Callers may have less time than it takes to find out that a connection is silent. One of them loses its time, and
// those after it begin with another address.
func TestShortCallsLeaveANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, nodes := memnet.New(), map[string]*slowNode{"a": {}, "b": {}}
		c := serveOn(t, n, nodes, "http://a", "http://b")
		failed := 0
		settle := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			if _, err := c.Settle(ctx, &stintv1.SettleRequest{}); err != nil {
				failed++
			}
		}
		settle()
		n.Cut("a", "client")
		for range 10 {
			time.Sleep(3 * time.Second) // each meets a silent connection, or none
			settle()
		}
		if failed > 1 {
			t.Errorf("%d of 10 calls met the node that hangs", failed)
		}
		n.Heal()
	})
}

// A node that works long on a request is no node that hangs.
func TestANodeThatTakesLongIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*slowNode{"a": {took: 4 * time.Second}, "b": {}}
		c := serveOn(t, memnet.New(), nodes, "http://a", "http://b")
		d, err := c.Settle(t.Context(), &stintv1.SettleRequest{})
		if err != nil || !d.Allowed || nodes["a"].asked != 1 || nodes["b"].asked > 0 {
			t.Errorf("%v %v, %d and %d calls", d, err, nodes["a"].asked, nodes["b"].asked)
		}
	})
}
