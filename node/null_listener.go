package node

import (
	"net"
	"sync"

	"github.com/stint-io/stint/cluster/peer"
)

// nullListener is a listener that takes no connection: even a port that no client is told of would be found.
type nullListener struct {
	once  sync.Once
	ended chan struct{}
}

func newNullListener() *nullListener { return &nullListener{ended: make(chan struct{})} }

// Accept implements net.Listener.
func (w *nullListener) Accept() (net.Conn, error) {
	<-w.ended
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (w *nullListener) Close() error {
	w.once.Do(func() { close(w.ended) })
	return nil
}

// Addr implements net.Listener.
func (w *nullListener) Addr() net.Addr { return peer.Addr("nowhere") }
