package cluster

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
)

// Addr is a replica's name as a network address. It stays when the machine's address changes: votes are kept by it
// (SEMANTICS R5).
type Addr string

// Network implements net.Addr.
func (Addr) Network() string { return "stint" }

// String implements net.Addr.
func (a Addr) String() string { return string(a) }

// Stream connects one replica with the other replicas of its shard, through the node's peer port. It is a net.Listener
// that can dial by name, which is what a Raft transport asks for. Its methods may be called concurrently.
type Stream struct {
	port     *PeerPort
	shard    shard.ID
	name     string
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// Accept implements net.Listener. The caller owns the connections; those it does not close end with the port.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.incoming:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: the replica is unknown here from now on, until a new stream of its name is made.
// Connections that were accepted go on.
func (s *Stream) Close() error {
	s.port.mu.Lock()
	if s.port.streams[s.name] == s {
		delete(s.port.streams, s.name)
	}
	s.port.mu.Unlock()
	s.end()
	return nil
}

func (s *Stream) end() { s.once.Do(func() { close(s.closed) }) }

// Addr implements net.Listener: the replica's name.
func (s *Stream) Addr() net.Addr { return Addr(s.name) }

// Dial connects to another replica of the shard by its name, in at most timeout; 0 leaves it to the port. The error
// says which Refusal it was, if the peer answered.
func (s *Stream) Dial(name string, timeout time.Duration) (net.Conn, error) {
	node, _, err := splitName(name)
	if err != nil {
		return nil, err
	}
	if timeout <= 0 {
		timeout = greetWithin
	}
	ctx, cancel := context.WithTimeout(s.port.stopping, timeout)
	defer cancel()
	return s.port.dial(ctx, node, &preamble{kind: kindRaft, shard: s.shard, from: s.name, to: name})
}

// hand gives an accepted connection to whoever calls Accept; false when nobody will any more.
func (s *Stream) hand(conn net.Conn) bool {
	select {
	case s.incoming <- conn:
		return true
	case <-s.closed:
		return false
	}
}
