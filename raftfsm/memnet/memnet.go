package memnet

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Net is a set of layers that reach each other by name.
type Net struct {
	mu       sync.Mutex
	layers   map[string]*Layer
	isolated map[string]bool
	conns    map[*conn]struct{}
}

// New makes a net without layers.
func New() *Net {
	return &Net{layers: make(map[string]*Layer), isolated: make(map[string]bool), conns: make(map[*conn]struct{})}
}

// Listen makes the layer of a name. A name that listens already changes hands.
func (n *Net) Listen(name string) *Layer {
	l := &Layer{net: n, name: name, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.layers[name] = l
	return l
}

// Isolate cuts a name off from all others: its connections end, and none is made.
func (n *Net) Isolate(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[name] = true
	for c := range n.conns {
		if c.from == name || c.to == name {
			c.Conn.Close()
			delete(n.conns, c)
		}
	}
}

// Rejoin ends Isolate.
func (n *Net) Rejoin(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.isolated, name)
}

func (n *Net) connect(from, to string) (near *conn, far *conn, target *Layer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	target = n.layers[to]
	if target == nil || n.isolated[from] || n.isolated[to] {
		return nil, nil, nil, fmt.Errorf("memnet: %s cannot reach %s", from, to)
	}
	a, b := net.Pipe()
	near, far = &conn{Conn: a, net: n, from: from, to: to}, &conn{Conn: b, net: n, from: from, to: to}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, far, target, nil
}

// Layer is one name's end of the net. It implements raftfsm.StreamLayer.
type Layer struct {
	net      *Net
	name     string
	incoming chan net.Conn
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

// Close implements net.Listener.
func (l *Layer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Layer) Addr() net.Addr { return addr(l.name) }

// Dial connects to a name.
func (l *Layer) Dial(name string, timeout time.Duration) (net.Conn, error) {
	near, far, target, err := l.net.connect(l.name, name)
	if err != nil {
		return nil, err
	}
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	select {
	case target.incoming <- far:
		return near, nil
	case <-target.closed:
	case <-patience.C:
	}
	near.Close()
	far.Close()
	return nil, fmt.Errorf("memnet: %s does not answer", name)
}

type conn struct {
	net.Conn
	net      *Net
	from, to string
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

type addr string

func (addr) Network() string  { return "memnet" }
func (a addr) String() string { return string(a) }
