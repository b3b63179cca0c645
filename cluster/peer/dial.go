package peer

import (
	"context"
	"fmt"
	"net"
	"time"
)

// DialHop connects to a node's peer port for forwarded requests. It is the dialer of a Hop.
func (p *Port) DialHop(ctx context.Context, node string) (net.Conn, error) {
	return p.dial(ctx, node, &preamble{kind: kindHop, from: p.config.Node, to: node})
}

// DialAsk connects to a node's peer port for questions: see Ask.
func (p *Port) DialAsk(ctx context.Context, node string) (net.Conn, error) {
	return p.dial(ctx, node, &preamble{kind: kindAsk, from: p.config.Node, to: node})
}

// DialOwn connects for questions to an address at which this node may answer, or another process under its id.
func (p *Port) DialOwn(ctx context.Context, addr string) (net.Conn, error) {
	own := p.config.Node
	return p.dialAt(ctx, func(string) (string, bool) { return addr, true }, own,
		&preamble{kind: kindAsk, from: own, to: own})
}

func (p *Port) dial(ctx context.Context, node string, hello *preamble) (net.Conn, error) {
	return p.dialAt(ctx, p.config.Resolve, node, hello)
}

func (p *Port) dialAt(
	ctx context.Context, resolve func(string) (string, bool), node string, hello *preamble,
) (net.Conn, error) {
	hello.cluster = p.config.Cluster
	first, err := hello.encode()
	if err != nil {
		return nil, err
	}
	if refusal := p.mayConnect(hello.kind, node); refusal != 0 {
		return nil, fmt.Errorf("cluster: node %q is not dialed: %w", node, errNoConnection[refusal])
	}
	addr, ok := resolve(node)
	if !ok {
		return nil, fmt.Errorf("cluster: no address is known for node %q", node)
	}
	ctx, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	raw, err := p.config.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("cluster: dialing %s: %w", hello.to, err)
	}
	conn, peer, err := p.hello(ctx, raw, node, first)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("cluster: dialing %s at %s: %w", hello.to, addr, err)
	}
	s := p.register(&peerConn{Conn: conn, raw: raw, kind: hello.kind, peer: peer, read: hello.kind == kindHop})
	if refusal := p.mayConnect(hello.kind, node); refusal != 0 {
		s.Close()
		return nil, fmt.Errorf("cluster: dialing %s at %s: %w", hello.to, addr, errNoConnection[refusal])
	}
	return s, nil
}

// hello does the TLS handshake, if this node proves its identity, then sends the preamble and reads the reply.
func (p *Port) hello(
	ctx context.Context, raw net.Conn, node string, first []byte,
) (conn net.Conn, peer proven, err error) {
	giveUp := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn, peer.node = raw, node
	if p.identity != nil {
		if conn, peer, err = p.identity.current().dial(ctx, raw, node); err != nil {
			return nil, peer, err
		}
	}
	if _, err := conn.Write(first); err != nil {
		return nil, peer, err
	}
	if err := readReply(conn); err != nil {
		return nil, peer, err
	}
	if !giveUp() {
		return nil, peer, context.Cause(ctx)
	}
	return conn, peer, nil
}
