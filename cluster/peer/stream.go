package peer

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Addr is a replica's name as a network address. It stays the same when the machine's address changes, because votes
// are kept by it (R5).
type Addr string

// Network implements net.Addr.
func (Addr) Network() string { return "stint" }

// String implements net.Addr.
func (a Addr) String() string { return string(a) }

// Stream connects one replica with the other replicas of its shard, through the node's peer port. It is a net.Listener
// that can dial by name, which is what a Raft transport asks for. Its methods may be called concurrently.
type Stream struct {
	port     *Port
	shard    shard.ID
	name     string
	incoming chan net.Conn // has no room: an accepted connection waits for Accept
	closed   chan struct{}
	once     sync.Once // closes closed: Close and the port's Close may both do it
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

// Close implements net.Listener. The replica is unknown here from now on, until a new stream with its name is made.
// Accepted connections stay open.
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

// Addr implements net.Listener. It returns the replica's name.
func (s *Stream) Addr() net.Addr { return Addr(s.name) }

// Dial connects to another replica of the shard by its name, within timeout; 0 means the port's default. If the peer
// refused, the error wraps its Refusal.
func (s *Stream) Dial(name string, timeout time.Duration) (net.Conn, error) {
	to, _, err := placement.ParseName(name)
	if err != nil {
		return nil, err
	}
	if timeout <= 0 {
		timeout = greetWithin
	}
	ctx, cancel := context.WithTimeout(s.port.stopping, timeout)
	defer cancel()
	return s.port.dial(ctx, to.Node, &preamble{kind: kindRaft, shard: s.shard, from: s.name, to: name})
}

// hand gives an accepted connection to the next Accept. It returns false if the stream is closed.
func (s *Stream) hand(conn net.Conn) bool {
	select {
	case s.incoming <- conn:
		return true
	case <-s.closed:
		return false
	}
}
