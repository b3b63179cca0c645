package client

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"connectrpc.com/connect"
)

// bearer adds a token to each request. It refuses an address that is not safe for it, although New and learn have
// looked at all of them.
type bearer struct {
	token string
	next  connect.HTTPClient
}

// Do implements connect.HTTPClient.
func (b bearer) Do(r *http.Request) (*http.Response, error) {
	if !maySendTokenTo(r.URL) {
		return nil, fmt.Errorf("client: a token is not sent in the clear to %s: use https://", r.URL.Host)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.Do(r)
}

// maySendTokenTo reports whether a token is safe on its way: the connection is encrypted, or does not leave the
// machine.
func maySendTokenTo(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && address.Unmap().IsLoopback()
}
