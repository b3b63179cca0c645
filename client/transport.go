package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

func newTransport(secure *tls.Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: &protocols, DisableCompression: true, IdleConnTimeout: 5 * time.Minute,
		DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext, DialTLSContext: dialTLS(secure),
		//mutant:client-waits-for-a-silent-node
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin}}
}

// A node that hangs, or that no packet reaches, refuses nothing. So a silent connection is asked whether its other end
// lives, and given up if no answer comes. A node that works long on a request answers pings.
const (
	pingAfter  = time.Second
	pingWithin = time.Second
	dialWithin = 2 * time.Second // a TLS handshake included
)

// noRedirect is how a client answers a redirect, which no node sends: a token would go where it leads.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialTLS returns a function that connects with TLS. A failed handshake is a failed dial: no request was sent.
func dialTLS(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := tls.Dialer{Config: &tls.Config{}}
	if config != nil {
		dialer.Config = config.Clone()
	}
	dialer.Config.NextProtos = []string{"h2"}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialWithin)
		defer cancel()
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", addr, err)}
		}
		return conn, nil
	}
}
