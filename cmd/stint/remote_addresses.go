package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// dialMax bounds the dial of one of several addresses before the next one is tried.
const dialMax = time.Second

// urls returns the addresses of Addr as URLs, adding a missing scheme. There is at least one.
func (r remote) urls() []string {
	var urls []string
	for addr := range strings.SplitSeq(r.Addr, ",") {
		addr = strings.TrimRight(strings.TrimSpace(addr), "/")
		if !strings.Contains(addr, "://") {
			addr = r.scheme() + "://" + withPort(addr)
		}
		urls = append(urls, addr)
	}
	return urls
}

// apiPort is the default port of a server.
const apiPort = "7400"

// withPort adds apiPort to a host without a port. A URL without a port is not changed: a proxy may listen at 80 or 443.
func withPort(host string) string {
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return net.JoinHostPort(address.String(), apiPort)
	}
	if host == "" || strings.Contains(host, ":") {
		return host
	}
	return net.JoinHostPort(host, apiPort)
}

// where returns all addresses, for display.
func (r remote) where() string {
	if r.DataDir != "" {
		return "the socket in " + r.DataDir
	}
	return strings.Join(r.urls(), " or ")
}

// validAddr returns what is wrong with the addresses, or with the files of TLS, which it reads. The error begins with
// the flag.
func (r remote) validAddr() error {
	for _, addr := range r.urls() {
		u, err := url.Parse(addr)
		if err != nil {
			return fmt.Errorf("--addr: %w", err)
		}
		if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--addr: %q is not a URL such as http://127.0.0.1:7400", r.Addr)
		}
		if u.Scheme == "http" && r.scheme() == "https" {
			return fmt.Errorf("--addr: %s is in plaintext, and --ca and --cert are for TLS: "+
				"write https://%s, or leave them out", addr, u.Host)
		}
	}
	_, err := r.trust.config()
	return err
}

// reach chooses the address for one call: the first that accepts a connection, so that no call is made twice to find a
// server. If none accepts, it returns the first address: its error is as good as any other.
func (r remote) reach(ctx context.Context) string {
	urls := r.urls()
	if r.DataDir != "" {
		return "http://local"
	}
	if len(urls) == 1 {
		return urls[0]
	}
	dialer := net.Dialer{Timeout: min(dialMax, r.Timeout/time.Duration(len(urls)))}
	for _, addr := range urls {
		if conn, err := dialer.DialContext(ctx, "tcp", hostPort(addr)); err == nil {
			conn.Close()
			return addr
		}
	}
	return urls[0]
}

// hostPort returns the address to dial for a URL that Validate has accepted.
func hostPort(addr string) string {
	u, err := url.Parse(addr)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// onThisMachine reports whether only this machine reaches an address.
func onThisMachine(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// nodeAddress is the address of a node that answers.
type nodeAddress struct{ id, url string }

// answering lists the nodes that answer, according to the cluster.
func (r remote) answering(m *stintv1.StatusResponse) (nodes []nodeAddress) {
	scheme, _, _ := strings.Cut(r.urls()[0], "://") // a cluster has TLS on all its nodes or on none
	for _, n := range m.Nodes {
		if n.Alive && n.ApiAddr != "" && n.State != "removed" {
			nodes = append(nodes, nodeAddress{n.Id, scheme + "://" + n.ApiAddr})
		}
	}
	return nodes
}
