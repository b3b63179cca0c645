package stinthttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/stinthttp"
)

// waiter answers like a client.
type waiter func(*stintv1.Entry) (*stintv1.Decision, error)

func (w waiter) Wait(_ context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error) {
	return w(r.Entries[0])
}

// closed records that a body was closed.
type closed struct {
	io.Reader
	done bool
}

func (c *closed) Close() error {
	c.done = true
	return nil
}

func TestOnlyWhatThePolicyAllowsIsSent(t *testing.T) {
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	defer server.Close()
	undecided := errors.New("no decision")
	for _, test := range []struct {
		decision *stintv1.Decision
		err      error
		want     error
		served   int
	}{
		{&stintv1.Decision{Allowed: true}, nil, nil, 1},
		{&stintv1.Decision{}, nil, stinthttp.ErrDenied, 1},
		{nil, undecided, undecided, 1},
		{&stintv1.Decision{Allowed: true}, nil, nil, 2},
	} {
		limits := waiter(func(e *stintv1.Entry) (*stintv1.Decision, error) {
			if e.Policy != "partner" || "http://"+e.Key != server.URL {
				t.Errorf("asked for %v", e)
			}
			return test.decision, test.err
		})
		body := &closed{Reader: strings.NewReader("x")}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/orders", body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: stinthttp.Outbound(limits, "partner", http.DefaultTransport)}).
			Do(request)
		if !errors.Is(err, test.want) || served != test.served || !body.done {
			t.Errorf("%v, %v: %v, %d served, body closed: %v", test.decision, test.err, err, served, body.done)
		}
		if err == nil {
			response.Body.Close()
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A service has one count, however its address is spelled.
func TestAServiceHasOneKey(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.example.com/v1":    "api.example.com",
		"https://API.Example.com/v1":    "api.example.com",
		"https://api.example.com:443":   "api.example.com",
		"http://api.example.com:80/":    "api.example.com",
		"http://api.example.com:":       "api.example.com",
		"http://api.example.com:443":    "api.example.com:443",
		"https://api.example.com./v1":   "api.example.com",
		"https://api.example.com.:443":  "api.example.com",
		"https://api.example.com.:8443": "api.example.com:8443",
		"http://[::1]:80":               "[::1]",
		"https://[2001:DB8::1]:8443":    "[2001:db8::1]:8443",
	} {
		var key string
		limits := waiter(func(e *stintv1.Entry) (*stintv1.Decision, error) {
			key = e.Key
			return &stintv1.Decision{}, nil
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := stinthttp.Outbound(limits, "partner", nil).RoundTrip(request)
		if key != want || !errors.Is(err, stinthttp.ErrDenied) {
			t.Errorf("%s counts as %q, want %q: %v", address, key, want, err)
		}
		if err == nil {
			response.Body.Close()
		}
	}
}
