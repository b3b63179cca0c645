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

func (p *Port) dial(ctx context.Context, node string, hello *preamble) (net.Conn, error) {
	hello.cluster = p.config.Cluster
	first, err := hello.encode()
	if err != nil {
		return nil, err
	}
	addr, ok := p.config.Resolve(node)
	if !ok {
		return nil, fmt.Errorf("cluster: no address is known for node %q", node)
	}
	ctx, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	raw, err := p.config.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("cluster: dialing %s: %w", hello.to, err)
	}
	conn, err := p.hello(ctx, raw, node, first)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("cluster: dialing %s at %s: %w", hello.to, addr, err)
	}
	return conn, nil
}

// hello does the TLS handshake, if there are certificates, then sends the preamble and reads the reply.
func (p *Port) hello(ctx context.Context, raw net.Conn, node string, first []byte) (conn net.Conn, err error) {
	giveUp := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn = raw
	if p.certificates != nil {
		if conn, err = p.certificates.dial(ctx, raw, node); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(first); err != nil {
		return nil, err
	}
	if err := readReply(conn); err != nil {
		return nil, err
	}
	if !giveUp() {
		return nil, context.Cause(ctx)
	}
	return conn, nil
}
