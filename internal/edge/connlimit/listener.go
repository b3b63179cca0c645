package connlimit

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Listen returns a listener that counts its connections towards the bound. Several listeners may share one Limit.
func (l *Limit) Listen(inner net.Listener, refusal Refusal) net.Listener {
	return &listener{Listener: inner, limit: l, refusal: refusal, closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	limit   *Limit
	refusal Refusal
	closed  chan struct{} // ends the pause of Accept
	once    sync.Once     // of closing closed
}

// Accept implements net.Listener. It fails only when the listener is closed, never for lack of descriptors.
func (a *listener) Accept() (net.Conn, error) {
	for {
		inner, err := a.Listener.Accept()
		switch {
		case err == nil:
			if c := a.limit.enter(inner, a.refusal); c != nil {
				return c, nil
			}
			continue
		case errors.Is(err, net.ErrClosed):
			return nil, err
		}
		a.limit.refuse("accept", "error", err)
		select {
		case <-time.After(acceptPause):
		case <-a.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener. Accepted connections stay open; all refused connections of the Limit, also those of
// its other listeners, get their reason and are closed.
func (a *listener) Close() error {
	a.once.Do(func() { close(a.closed) })
	a.limit.dismiss(0)
	return a.Listener.Close()
}
