package cluster

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// boundTransport is memberlist's own transport, except that whatever it dials ends with a context: Stop must not wait
// for a seed that swallows packets.
type boundTransport struct {
	*memberlist.NetTransport
	ctx context.Context
}

// listenGossip opens TCP and UDP on one port. If any port will do, the first free one of TCP may be taken on UDP.
func listenGossip(ctx context.Context, a gossipAddress, logger *log.Logger) (*boundTransport, error) {
	attempts := 1
	if a.port == 0 {
		attempts = 10
	}
	config := &memberlist.NetTransportConfig{BindAddrs: []string{a.bind.String()}, BindPort: int(a.port), Logger: logger}
	for {
		transport, err := memberlist.NewNetTransport(config)
		if err == nil {
			return &boundTransport{transport, ctx}, nil
		}
		if attempts--; attempts == 0 {
			return nil, fmt.Errorf("gossip-addr: %w", err)
		}
	}
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *boundTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(t.ctx, func() { conn.Close() })}, nil
}

// boundConn is closed when its transport's context ends, if not before.
type boundConn struct {
	net.Conn
	release func() bool
}

func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}
