package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// dialMax is how long one of several addresses may take to answer before the next is tried.
const dialMax = time.Second

// urls are the addresses of Addr as URLs: people leave the scheme out. There is at least one.
func (r remote) urls() []string {
	var urls []string
	for addr := range strings.SplitSeq(r.Addr, ",") {
		addr = strings.TrimRight(strings.TrimSpace(addr), "/")
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		urls = append(urls, addr)
	}
	return urls
}

// where is every address, for people.
func (r remote) where() string { return strings.Join(r.urls(), " or ") }

// Validate implements kong.Validatable.
func (r remote) Validate() error {
	for _, addr := range r.urls() {
		u, err := url.Parse(addr)
		if err != nil {
			return fmt.Errorf("--addr: %w", err)
		}
		if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--addr: %q is not a URL such as http://127.0.0.1:7400", r.Addr)
		}
	}
	return nil
}

// reach chooses the address for one call: the first that takes a connection, so that no call has to be made twice to
// find a server. Where none does it is the first, whose failure is as good as any.
func (r remote) reach(ctx context.Context) string {
	urls := r.urls()
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

// hostPort is the address to dial for a URL that Validate has passed.
func hostPort(addr string) string {
	u, err := url.Parse(addr)
	if err != nil {
		return addr
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
