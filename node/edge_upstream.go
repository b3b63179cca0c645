package node

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/shard"
)

// upstream is an edge's way to the nodes of its cluster: their ports for clients. All methods may be called
// concurrently.
type upstream struct {
	addresses []string               // URLs
	tls       *tls.Config            // of those with https
	token     func() (string, error) // of the edge; read for each connection, so that it may be replaced
	open      func(ctx context.Context, addr string) (net.Conn, error)
	passes    *http.Transport // of calls that are passed on
	connected atomic.Uint64   // how often a node took a connection for that of an edge

	mu     sync.Mutex
	silent map[string]time.Time // guarded by mu: when nodes did not answer lately
}

const (
	passDialWithin = 2 * time.Second  // a handshake included: a node that hangs refuses nothing
	silentFor      = 10 * time.Second // how long a node that did not answer is asked last
)

func newUpstream(c *EdgeConfig) (*upstream, error) {
	u := &upstream{addresses: c.Upstream, tls: c.UpstreamTLS, token: c.UpstreamToken, open: c.World.Dial,
		silent: make(map[string]time.Time)}
	if u.open == nil {
		dialer := net.Dialer{KeepAliveConfig: clientsAlive}
		u.open = func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", addr)
		}
	}
	if len(u.addresses) == 0 {
		return nil, errors.New("upstream: must be given")
	}
	for _, address := range u.addresses {
		at, err := url.Parse(address)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return nil, fmt.Errorf("upstream: %q is not a URL such as https://stint.example.com:7400", address)
		}
	}
	to := func(scheme string) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, passDialWithin)
			defer cancel()
			conn, err := u.dial(ctx, scheme+"://"+addr)
			if err != nil {
				err = unreachedError{err}
			}
			return conn, err
		}
	}
	u.passes = &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DialContext: to("http"),
		DialTLSContext: to("https")}
	return u, nil
}

// nodes names the nodes that an edge may ask, whatever a request is about.
func (u *upstream) nodes(shard.ID) []string { return u.addresses }

// dial connects to a node.
func (u *upstream) dial(ctx context.Context, address string) (net.Conn, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	secure, port := at.Scheme == "https", map[string]string{"http": "80", "https": "443"}[at.Scheme]
	conn, err := u.open(ctx, net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port)))
	if err != nil || !secure {
		return conn, err
	}
	config := &tls.Config{}
	if u.tls != nil {
		config = u.tls.Clone()
	}
	config.ServerName, config.NextProtos = cmp.Or(config.ServerName, at.Hostname()), []string{"http/1.1"}
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return over, nil
}

// dialHop connects to a node as an edge. ctx has a deadline.
func (u *upstream) dialHop(ctx context.Context, address string) (net.Conn, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+api.EdgePath, http.NoBody)
	if err != nil {
		return nil, err
	}
	token, err := u.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", api.EdgeProtocol)
	conn, err := u.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	interrupted := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	in := bufio.NewReader(conn)
	err = upgradeConn(conn, in, request)
	if !interrupted() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	u.connected.Add(1)
	return upgradedConn{conn, in}, nil
}

// upgradeConn has a node take a connection for that of an edge.
func upgradeConn(conn net.Conn, in *bufio.Reader, request *http.Request) error {
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	const most = 300
	why, _ := io.ReadAll(io.LimitReader(response.Body, most))
	err = fmt.Errorf("it takes no edge: %s: %s", response.Status, strings.TrimSpace(string(why)))
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return api.EdgeRefused(err) //mutant:refused-edge-goes-on-asking
	}
	return err
}

// upgradedConn is a connection of which some bytes have been read ahead.
type upgradedConn struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (c upgradedConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// unreachedError is why a node could not be connected to, so that nothing was sent.
type unreachedError struct{ error }

// Unwrap returns the reason.
func (u unreachedError) Unwrap() error { return u.error }

// note records whether a node answered. One that did not is asked last for a while.
func (u *upstream) note(address string, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if answered {
		delete(u.silent, address) //mutant:edge-avoids-who-answers
	} else {
		u.silent[address] = time.Now() //mutant:edge-asks-a-silent-node
	}
}

// inTurn returns the addresses in the order in which they are asked: last those that did not answer, and of these last
// the one that did not just now.
func (u *upstream) inTurn() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := func(address string) (at time.Time) {
		if at = u.silent[address]; time.Since(at) < silentFor {
			return at
		}
		return time.Time{}
	}
	return slices.SortedStableFunc(slices.Values(u.addresses), func(a, b string) int {
		return since(a).Compare(since(b)) //mutant:edge-goes-back-to-a-silent-node
	})
}

// RoundTrip implements http.RoundTripper: it sends a request to the first node that can be connected to, and to no
// other.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	var why error
	for _, address := range u.inTurn() {
		at, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		sent := r.Clone(r.Context())
		sent.URL.Scheme, sent.URL.Host, sent.Host = at.Scheme, at.Host, at.Host
		if why != nil && r.Body != nil && r.Body != http.NoBody {
			if r.GetBody == nil {
				break
			}
			if sent.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		response, err := u.passes.RoundTrip(sent)
		u.note(address, err == nil) // a caller that gave up had no answer either
		if _, not := errors.AsType[unreachedError](err); !not {
			return response, err
		}
		why = err
	}
	return nil, &shard.Error{Code: shard.Unavailable, RetryAfter: 500e3,
		Message: fmt.Sprintf("no node of the cluster can be reached (%v); nothing was done", why)}
}
