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
		DialTLSContext: dialTLS(secure)}
}

// noRedirect is how a client answers a redirect, which no node sends: a token would go where it leads.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// handshakeWithin bounds a TLS handshake with a node.
const handshakeWithin = 5 * time.Second

// dialTLS returns a function that connects with TLS. A failed handshake is a failed dial: no request was sent.
func dialTLS(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := tls.Dialer{Config: &tls.Config{}}
	if config != nil {
		dialer.Config = config.Clone()
	}
	dialer.Config.NextProtos = []string{"h2"}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
		defer cancel()
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", addr, err)}
		}
		return conn, nil
	}
}
