package memnet

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Layer is one name's end of the net. It implements raftfsm.StreamLayer.
type Layer struct {
	net      *Net
	name     string
	incoming chan net.Conn // without room: Dial waits until Accept takes the connection
	closed   chan struct{}
	once     sync.Once
}

// Accept implements net.Listener.
func (l *Layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Established connections stay open.
func (l *Layer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Layer) Addr() net.Addr { return addr(l.name) }

// Dial connects to a name.
func (l *Layer) Dial(name string, timeout time.Duration) (net.Conn, error) {
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	if !l.handshake(name, patience.C) {
		return nil, fmt.Errorf("memnet: %s does not answer: %w", name, os.ErrDeadlineExceeded)
	}
	near, far, target, err := l.net.connect(l.name, name)
	if err != nil {
		return nil, err
	}
	select {
	case target.incoming <- far:
		return near, nil
	case <-target.closed:
		err = syscall.ECONNREFUSED
	case <-patience.C:
		err = os.ErrDeadlineExceeded
	}
	near.Close()
	far.Close()
	return nil, fmt.Errorf("memnet: %s does not answer: %w", name, err)
}

// handshake takes as long as one message in each direction. It returns false if they do not get through in time.
func (l *Layer) handshake(name string, timeout <-chan time.Time) bool {
	for {
		r := l.net.rules.Load()
		if r.broken(l.name, name) {
			return true // connect reports it
		}
		if !r.stalled(l.name, name) && !r.stalled(name, l.name) {
			break
		}
		select {
		case <-r.changed:
		case <-timeout:
			return false
		}
	}
	wait := l.net.transit(l.name, name) + l.net.transit(name, l.name)
	if wait == 0 {
		return true
	}
	underway := time.NewTimer(wait)
	defer underway.Stop()
	select {
	case <-underway.C:
		return true
	case <-timeout:
		return false
	}
}

type addr string

func (addr) Network() string  { return "memnet" }
func (a addr) String() string { return string(a) }
