package peer

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/sleep"
)

// accept accepts connections and greets each in its own goroutine, so that a peer that does not introduce itself delays
// no other.
func (p *Port) accept() {
	for {
		conn, err := p.config.Listener.Accept()
		if err != nil {
			if p.stopping.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			p.noteRefused(nil, &preamble{}, err)
			if !sleep.For(p.stopping, acceptBackoff) { // perhaps out of file descriptors: some will be freed
				return
			}
			continue
		}
		if why := p.remember(conn); why != connlimit.Room {
			conn.Close()
			p.config.Refused(string(why))
			p.noteRefused(conn, &preamble{}, errors.New("too many connections: "+string(why)))
			continue
		}
		p.goroutines.Go(func() { p.greet(conn) })
	}
}

// remember counts an accepted connection, if there is room for it and the port is not closed. Unidentified connections
// may use a part of the room, and each address a part of that. So they cannot lock out a node, which identifies itself
// in a moment.
func (p *Port) remember(conn net.Conn) connlimit.Why {
	if why := p.greeting.Enter(conn.RemoteAddr()); why != connlimit.Room {
		return why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= p.config.Most {
		p.greeting.Leave(conn.RemoteAddr())
		return connlimit.Full
	}
	p.conns[conn] = struct{}{}
	return connlimit.Room
}

// forget takes a closed connection out of conns. It may be called again.
func (p *Port) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// greet identifies the dialer and hands the connection to its handler.
func (p *Port) greet(raw net.Conn) {
	conn := net.Conn(&acceptedConn{raw, raw, p})
	raw.SetDeadline(time.Now().Add(greetWithin))
	hello, peer, conn, err := p.introduce(conn)
	p.greeting.Leave(raw.RemoteAddr())
	if err != nil {
		p.noteRefused(raw, &hello, err)
		conn.Close()
		return
	}
	raw.SetDeadline(time.Time{})
	s := &peerConn{Conn: conn, raw: raw, kind: hello.kind, peer: peer, read: true}
	if hello.kind == kindHop {
		p.serveHop(s)
		return
	}
	conn = p.register(s)
	if refusal := p.mayConnect(hello.kind, peer.node); refusal != 0 { //mutant:connects-during-removal
		p.noteRefused(raw, &hello, refusal)
		conn.Close()
		return
	}
	if hello.kind == kindAsk {
		p.serveAsk(conn, hello.from)
		return
	}
	p.mu.Lock()
	stream := p.streams[hello.to]
	p.mu.Unlock()
	if stream == nil || !stream.hand(conn) {
		conn.Close()
	}
}

// refusedEvery is the minimum time between two log lines about refused connections. Peers try again several times a
// second, and anyone who can reach the port could fill the disk.
const refusedEvery = time.Second

// noteRefused logs a refusal, if it is due. raw is nil if no connection could be accepted at all.
func (p *Port) noteRefused(raw net.Conn, hello *preamble, err error) {
	unsaid, due := p.refused.Allow("", time.Now())
	if !due {
		return
	}
	remote := ""
	if raw != nil {
		remote = raw.RemoteAddr().String()
	}
	p.config.Logger.Warn("peer port: connection refused", "remote", remote, "from", hello.from,
		"to", hello.to, "error", err, "unsaid", unsaid)
}

// introduce checks the certificate, then the preamble, and sends the reply. In every case the caller must close the
// returned connection, not the original one.
func (p *Port) introduce(conn net.Conn) (hello preamble, peer proven, secured net.Conn, err error) {
	if p.identity != nil {
		if conn, peer, err = p.identity.current().accept(conn); err != nil {
			return preamble{}, peer, conn, err
		}
	}
	hello, err = readPreamble(conn)
	refusal, detail := Refusal(0), ""
	if err == nil {
		refusal, detail, err = p.judge(&hello, &peer)
	} else if !errors.As(err, &refusal) {
		return hello, peer, conn, err
	}
	if _, wrote := conn.Write(encodeReply(refusal, detail)); err == nil {
		err = wrote
	}
	return hello, peer, conn, err
}

// judge checks a preamble against this node. detail is what the dialer is told that this node has instead: only a node
// of the cluster hears ids. Where nodes prove nothing, peer gets the node that the dialer says it is.
func (p *Port) judge(hello *preamble, peer *proven) (refusal Refusal, detail string, err error) {
	from, to, err := hello.nodes()
	if p.identity == nil {
		peer.node = from
	}
	refusal, detail, err = p.refusal(hello, peer, from, to, err)
	if p.config.Listing(peer.node) != Listed { //mutant:strangers-hear-ids
		detail = ""
	}
	return refusal, detail, err
}

// refusal returns why the dialer is turned away, with a detail that judge keeps from unlisted nodes. from, to and err
// are what hello.nodes returned.
func (p *Port) refusal(
	hello *preamble, peer *proven, from, to string, err error,
) (refusal Refusal, detail string, _ error) {
	switch {
	case err != nil:
		return UnknownReplica, "not a replica of that shard", err
	case hello.cluster != p.config.Cluster:
		return WrongCluster, p.config.Cluster, WrongCluster
	case from != peer.node:
		return WrongCertificate, peer.node, WrongCertificate
	case to != p.config.Node:
		return WrongNode, p.config.Node, WrongNode
	case p.mayConnect(hello.kind, from) != 0:
		refusal = p.mayConnect(hello.kind, from)
		return refusal, "", refusal
	case hello.kind == kindHop && (p.config.Decide == nil || p.draining.Err() != nil):
		return NotServing, p.config.Node, NotServing
	case hello.kind == kindAsk && p.config.Answer == nil:
		return NotAnswering, p.config.Node, NotAnswering
	case hello.kind == kindRaft && !p.runs(hello.to):
		return UnknownReplica, hello.to, UnknownReplica
	}
	return 0, "", nil
}

func (p *Port) runs(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams[name] != nil
}

// serveHop answers forwarded requests until the connection ends. The connection is registered before it is checked once
// more, as in greet. It counts in hops under the mutex, so that DrainHops waits for it or it is not served.
func (p *Port) serveHop(s *peerConn) {
	draining, drain := context.WithCancel(p.draining)
	defer drain()
	s.drain = drain
	p.register(s)
	refusal := p.mayConnect(kindHop, s.peer.node)
	p.mu.Lock()
	if refusal != 0 || p.draining.Err() != nil {
		p.mu.Unlock()
		s.Close()
		return
	}
	p.hops.Add(1)
	p.mu.Unlock()
	defer p.hops.Done()
	if err := hop.Serve(draining, s, p.config.Decide); err != nil {
		p.config.Logger.Info("peer port: forwarding connection ended",
			"remote", s.raw.RemoteAddr().String(), "error", err)
	}
}

// acceptedConn is an accepted connection that the port forgets when it is closed.
type acceptedConn struct {
	net.Conn
	raw net.Conn // as it is in Port.conns
	of  *Port
}

// Close implements net.Conn.
func (c *acceptedConn) Close() error {
	c.of.forget(c.raw)
	return c.Conn.Close()
}
