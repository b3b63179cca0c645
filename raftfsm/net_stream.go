package raftfsm

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// StreamLayer connects the replicas of one group. Addr must be the replica's own name (Replica.Name): votes are kept by
// address, and a machine's address may change while the name must not.
type StreamLayer interface {
	net.Listener
	// Dial connects to the replica with that name.
	Dial(name string, timeout time.Duration) (net.Conn, error)
}

// streams is a StreamLayer in the form that raft needs. Its Close also closes the accepted connections: raft's
// transport leaves them, and a goroutine for each, open until the peer closes them.
type streams struct {
	StreamLayer
	mu     sync.Mutex
	conns  map[net.Conn]struct{} // accepted and not closed; guarded by mu
	closed bool                  // guarded by mu: what is accepted from now on is closed at once
}

func newStreams(layer StreamLayer) *streams {
	return &streams{StreamLayer: layer, conns: make(map[net.Conn]struct{})}
}

// Dial implements raft.StreamLayer.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.StreamLayer.Dial(string(address), timeout)
}

// Accept implements net.Listener.
func (s *streams) Accept() (net.Conn, error) {
	conn, err := s.StreamLayer.Accept()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	s.conns[conn] = struct{}{}
	return &acceptedConn{conn, s}, nil
}

// Close implements net.Listener.
func (s *streams) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	clear(s.conns)
	return s.StreamLayer.Close()
}

// acceptedConn is an accepted connection, which unregisters itself when it is closed.
type acceptedConn struct {
	net.Conn
	of *streams
}

// Close implements net.Conn.
func (c *acceptedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
