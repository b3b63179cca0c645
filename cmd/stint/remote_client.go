package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/node"
)

// client sends requests according to the flags.
func (r remote) client() *http.Client {
	transport := r.transport()
	if r.DataDir != "" {
		transport = &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return node.DialLocal(ctx, r.DataDir)
			}}
	}
	return &http.Client{Transport: leavesTime{addressed{transport, r}}, CheckRedirect: noRedirect}
}

// noRedirect is how a command answers a redirect, which no node sends: the token would go where it leads.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// anyAddress is the address of requests that go to whichever address reach chooses.
const anyAddress = "http://any"

// addressed sends each request to its address, with a token if there is one.
type addressed struct {
	http.RoundTripper
	remote remote
}

// RoundTrip implements http.RoundTripper. It sends no token over a connection that others could read.
func (a addressed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if "http://"+request.URL.Host == anyAddress {
		chosen, err := url.Parse(a.remote.reach(request.Context()))
		if err != nil {
			return nil, err
		}
		u := request.URL
		u.Scheme, u.Host, u.Path, request.Host = chosen.Scheme, chosen.Host, chosen.Path+u.Path, chosen.Host
	}
	if a.remote.DataDir != "" {
		return a.RoundTripper.RoundTrip(request)
	}
	token, err := a.remote.token()
	if err == nil && token != "" {
		err = maySendTokenTo(request.URL)
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if err != nil {
		return nil, err
	}
	return a.RoundTripper.RoundTrip(request)
}

// leavesTime asks the server to answer a little before the command gives up. A server that cannot serve gives the
// reason when its time is over; with equal timeouts that answer would come too late.
type leavesTime struct{ http.RoundTripper }

// answerTime returns how long before the deadline the answer must come: enough for its way back, and at most a tenth of
// the time left.
func answerTime(left time.Duration) time.Duration { return min(left/10, 500*time.Millisecond) }

// RoundTrip implements http.RoundTripper.
func (l leavesTime) RoundTrip(request *http.Request) (*http.Response, error) {
	const header = "Connect-Timeout-Ms" // https://connectrpc.com/docs/protocol
	deadline, ok := request.Context().Deadline()
	if left := time.Until(deadline); ok && request.Header.Get(header) != "" {
		request = request.Clone(request.Context())
		request.Header.Set(header, strconv.FormatInt(max(1, (left-answerTime(left)).Milliseconds()), 10))
	}
	return l.RoundTripper.RoundTrip(request)
}

// fetch makes a request that is not a call, and returns the body, of which it reads 1 KiB at most. The error for a
// status other than 200 begins with what refused returns for the address that was asked.
func (r remote) fetch(what, method, path, body string, refused func(addr string) string) (string, error) {
	ctx, cancel := r.context()
	defer cancel()
	addr := r.reach(ctx)
	request, err := http.NewRequestWithContext(ctx, method, addr+path, strings.NewReader(body))
	if err != nil {
		return "", usageError{fmt.Errorf("--addr: %w", err)}
	}
	response, err := r.client().Do(request)
	if err != nil {
		return "", r.explain(ctx, what, err, "")
	}
	defer response.Body.Close()
	const shown = 1 << 10
	text, _ := io.ReadAll(io.LimitReader(response.Body, shown)) // a partial body is good enough to show
	if response.StatusCode == http.StatusOK {
		return string(text), nil
	}
	reason := strings.TrimSpace(string(text))
	var wire struct{ Message string } // a server that refuses a connection beyond its limit sends Connect's form
	if json.Unmarshal(text, &wire) == nil && wire.Message != "" {
		reason = wire.Message
	}
	return "", fmt.Errorf("%s: %s: %s", refused(addr), response.Status, reason)
}
