package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// recorder is an HTTP client that remembers which token went where.
type recorder struct {
	mu   sync.Mutex
	sent map[string]string // by host
}

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	if r.sent == nil {
		r.sent = map[string]string{}
	}
	r.sent[request.URL.Host] = request.Header.Get("Authorization")
	r.mu.Unlock()
	return http.DefaultClient.Do(request)
}

func TestATokenGoesWhereNobodyElseReadsIt(t *testing.T) {
	for address, want := range map[string]bool{"http://127.0.0.1:7400": true, "http://[::1]:7400": true,
		"http://localhost:7400": true, "https://stint.example.com": true, "http://10.0.0.1:7400": false,
		"http://stint.example.com:7400": false} {
		c, err := client.New(client.Config{Addresses: []string{address}, Token: "stint_x"})
		if err == nil {
			c.Close()
		}
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "in the clear") {
			t.Errorf("%s: %v", address, err)
		}
	}
	node := startNode(t)
	own(node)
	// Another node announces an address to which the token must not go: the first one forwards.
	status := node.status.Load()
	status.Nodes = append(status.Nodes, &stintv1.Node{Id: "far", ApiAddr: "10.255.255.1:7400"})
	for _, s := range status.Shards {
		s.Owner = "far"
	}
	var sent recorder
	c, err := client.New(client.Config{Addresses: []string{node.url}, Token: "stint_x", HTTP: &sent})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.Check(t.Context(), client.Entry("p", "k")); err != nil {
			t.Fatal(err)
		}
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	if len(sent.sent) != 1 || sent.sent[strings.TrimPrefix(node.url, "http://")] != "Bearer stint_x" {
		t.Errorf("the token went to %v", sent.sent)
	}
}

// A node redirects nobody: neither the token nor the request goes where another answer sends it.
func TestARedirectIsNotFollowed(t *testing.T) {
	serve := func(h http.Handler) string {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		server := httptest.NewUnstartedServer(h)
		server.Config.Protocols = &protocols
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
	var sent atomic.Pointer[string]
	elsewhere := serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent.Store(new(r.Header.Get("Authorization")))
	}))
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
		c, err := client.New(client.Config{Token: "stint_x",
			Addresses: []string{serve(http.RedirectHandler(elsewhere, status))}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Check(t.Context(), client.Entry("p", "k"))
		var failure *client.Error
		if !errors.As(err, &failure) || !failure.MaybeApplied {
			t.Errorf("%d: %v", status, err)
		}
		c.Close()
	}
	if token := sent.Load(); token != nil {
		t.Errorf("a request went elsewhere, with %q", *token)
	}
}
