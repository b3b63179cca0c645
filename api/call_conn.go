package api

import (
	"context"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/peer"
)

// connection is what calls know of the connection that they came on. nil: nothing. Its methods may be called concurrently.
type connection struct {
	proven  func()       // records that the client has proven who it is; nil: nobody wants to know
	strange atomic.Int32 // the calls under way that strangers may make
}

// strangeMost bounds the calls of one connection that wait for a stranger: for the rest of a request that everybody may send, or
// for the reader of a refusal. HTTP/2 lets a connection begin a thousand, each of which holds a goroutine for as long as its
// time limit.
const strangeMost = 16

type connectionKey struct{}

// connectionOf returns the connection of a call through net/http.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// connectionIn returns the connection of a call through grpc-go, and what is known of it.
func connectionIn(ctx context.Context) (c *connection, info connInfo, remote string) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, connInfo{}, ""
	}
	info, _ = p.AuthInfo.(connInfo)
	return info.connection, info, p.Addr.String()
}

// prove records that the client has proven who it is.
func (c *connection) prove() {
	if c != nil && c.proven != nil {
		c.proven()
	}
}

// enter counts a stranger's call; false: there are too many, and it must not wait for its client.
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

// awaitReader waits until an answer is on its way. With HTTP/2 a client may let it wait, and net/http does so after the handler has
// returned.
func awaitReader(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor > 1 {
		_ = http.NewResponseController(w).Flush() // a writer without a connection waits for nobody
	}
}
