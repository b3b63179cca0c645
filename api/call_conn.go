package api

import (
	"context"
	"crypto/tls"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// connection is what calls know of their connection; nil if it is unknown. Its methods may be called concurrently.
type connection struct {
	proven  func()       // records that the client has authenticated; may be nil
	strange atomic.Int32 // open calls that need no authentication
}

// strangeMost bounds the calls of one connection that wait for an unauthenticated client: for the rest of a request
// that needs no token, or for a refusal to be read. HTTP/2 lets a connection begin a thousand, and each holds a
// goroutine until its time limit.
const strangeMost = 16

type connectionKey struct{}

// connectionOf returns the connection of a call through net/http.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// connectionIn returns the connection of a call through grpc-go and its properties.
func connectionIn(ctx context.Context) (c *connection, info connInfo, remote string) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, connInfo{}, ""
	}
	info, _ = p.AuthInfo.(connInfo)
	return info.connection, info, p.Addr.String()
}

// connInfo is what a call on grpc-go's port knows of its connection. The zero value knows nothing.
type connInfo struct {
	credentials.AuthInfo
	*connection
}

// secure returns the connection's TLS state, or nil without TLS.
func (i connInfo) secure() *tls.ConnectionState {
	if info, ok := i.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}

// prove records that the client has authenticated.
func (c *connection) prove() {
	if c != nil && c.proven != nil {
		c.proven()
	}
}

// enter counts an unauthenticated call. It returns false if there are too many: then the call must not wait for its
// client.
func (c *connection) enter() bool {
	if c == nil || c.strange.Add(1) <= strangeMost {
		return true
	}
	c.strange.Add(-1)
	return false
}

// leave ends what enter began.
func (c *connection) leave() {
	if c != nil {
		c.strange.Add(-1)
	}
}
