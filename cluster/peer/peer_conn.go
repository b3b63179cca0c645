package peer

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
)

// peerConn is a connection between ends that have identified themselves, in either direction. The port can end it
// later, when one of them may no longer have it.
type peerConn struct {
	net.Conn
	raw  net.Conn // below TLS: closing it does not wait
	port *Port    // set by register: a connection that is not registered must not be used
	kind connKind
	peer proven
	// drain ends a connection with forwarded requests to this node in good order, within three seconds; nil: it is cut.
	drain context.CancelFunc
	// read says that a goroutine here always reads it, and so notices its end. It is an accepted one, or carries
	// forwarded requests.
	read  bool
	ended atomic.Bool // by the other side
}

// register registers a connection until it is closed. The caller asks mayConnect afterwards: the table may have changed
// since the ends identified themselves, and Recheck looked before the connection was registered.
func (p *Port) register(s *peerConn) *peerConn {
	s.port = p
	p.deaths.opened(s.peer.node, s.read)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peerConns[s] = struct{}{}
	return s
}

// Close implements net.Conn.
func (s *peerConn) Close() error {
	s.leave()
	return s.Conn.Close()
}

// Read implements net.Conn.
func (s *peerConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.met(err)
	return n, err
}

// Write implements net.Conn.
func (s *peerConn) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.met(err)
	return n, err
}

// met notes an error that says that the other side has ended the connection.
func (s *peerConn) met(err error) {
	if err != nil && isEnd(err) {
		s.ended.Store(true)
	}
}

// leave notes that the connection is closed. Its reader closes it as soon as the other side has ended it.
func (s *peerConn) leave() {
	p := s.port
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, stood := p.peerConns[s]; !stood {
		return
	}
	delete(p.peerConns, s)
	if s.read && p.deaths.ended(s.peer.node, s.ended.Load()) && !p.closed {
		p.goroutines.Go(func() { p.config.Silent(s.peer.node) })
	}
}

// cut ends the connection at once. Its users get errors, and close it.
func (s *peerConn) cut() { s.raw.Close() }

// end ends the connection, in good order if that is possible.
func (s *peerConn) end() {
	if s.drain != nil {
		s.drain()
		return
	}
	s.cut()
}

// Recheck ends connections that would not be made today. It is called after a newer table was learned and after the
// cluster key has changed. Connections with a node that was removed are cut, whatever they are for. A connection ends
// if its other end proved itself by a line that is gone. When another line sends, the connections with forwarded
// requests to this node end in good order: they are made again at once, with the new line, and so are not cut when the
// old one is removed.
func (p *Port) Recheck() {
	var lines []string
	if p.config.Key != nil {
		lines = p.config.Key.Key().Fingerprints()
	}
	for _, s := range p.allPeerConns() {
		refusal := p.mayConnect(s.kind, s.peer.node)
		if p.config.Listing(s.peer.node) == Removed {
			refusal = WasRemoved
		}
		switch {
		case refusal != 0: //mutant:removal-cuts-nothing
			p.config.Logger.Info("peer port: connection cut", "node", s.peer.node, "error", refusal)
			s.cut()
		case s.peer.line != "" && !slices.Contains(lines, s.peer.line): //mutant:removed-line-stays-connected
			s.end()
		case s.peer.own != "" && s.peer.own != lines[0] && s.drain != nil: //mutant:requests-stay-on-the-old-line
			s.drain()
		}
	}
}

func (p *Port) allPeerConns() (all []*peerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.peerConns {
		all = append(all, s)
	}
	return all
}
