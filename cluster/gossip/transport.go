package gossip

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/stint-io/stint/internal/edge/connlimit"
)

// network is where gossip listens and dials.
type network interface {
	// listen opens TCP and UDP on one port.
	listen(address string, port int, logger *log.Logger) (underlay, error)
	dial(ctx context.Context, address string) (net.Conn, error)
}

// underlay is a transport that may have chosen its port.
type underlay interface {
	memberlist.NodeAwareTransport
	GetAutoBindPort() int
}

// machineNet is the network of the machine.
type machineNet struct{}

func (machineNet) listen(address string, port int, logger *log.Logger) (underlay, error) {
	return memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{address}, BindPort: port,
		Logger: logger})
}

func (machineNet) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// boundTransport is memberlist's own transport with two additions. Its dials end with a context, because Stop must not
// wait for a seed that swallows packets. And it bounds the incoming streams at one time, because memberlist may
// allocate 20 MiB for each before it finds that the key is missing.
type boundTransport struct {
	underlay
	ctx     context.Context
	network network
	tally   *connlimit.Tally // incoming streams
	refused func(why string) // Config.OnRefused
	streams chan net.Conn    // incoming ones within the bound, for memberlist
	ended   chan struct{}    // closed by Shutdown
	once    sync.Once        // a start that fails may shut down twice
	passing sync.WaitGroup   // pass
}

// listen opens TCP and UDP on one port. If any port will do, a free TCP port may be taken on UDP, so it makes several
// attempts.
func (c *Config) listen(ctx context.Context, a gossipAddress, logger *log.Logger) (*boundTransport, error) {
	attempts := 1
	if a.port == 0 {
		attempts = 10
	}
	for {
		transport, err := c.network.listen(a.bind.String(), int(a.port), logger)
		if err == nil {
			return bindTransport(ctx, transport, c), nil
		}
		if attempts--; attempts == 0 {
			return nil, fmt.Errorf("gossip-addr: %w", err)
		}
	}
}

func bindTransport(ctx context.Context, inner underlay, c *Config) *boundTransport {
	t := &boundTransport{underlay: inner, ctx: ctx, network: c.network, tally: connlimit.NewTally(c.Streams),
		refused: c.OnRefused, streams: make(chan net.Conn), ended: make(chan struct{})}
	t.passing.Go(t.pass)
	return t
}

// StreamCh implements memberlist.Transport.
func (t *boundTransport) StreamCh() <-chan net.Conn { return t.streams }

// pass hands on streams within the bound, until Shutdown.
func (t *boundTransport) pass() {
	for {
		select {
		case conn := <-t.underlay.StreamCh():
			if why := t.tally.Enter(conn.RemoteAddr()); why != connlimit.Room {
				conn.Close()
				t.refused(string(why))
				continue
			}
			stream := &boundConn{conn, func() bool { t.tally.Leave(conn.RemoteAddr()); return true }, sync.Once{}}
			select {
			case t.streams <- stream:
			case <-t.ended:
				stream.Close()
			}
		case <-t.ended:
			return
		}
	}
}

// Shutdown implements memberlist.Transport. memberlist's own Shutdown blocks until its accepted streams are received,
// so pass runs until after it.
func (t *boundTransport) Shutdown() error {
	err := t.underlay.Shutdown()
	t.once.Do(func() { close(t.ended) })
	t.passing.Wait()
	return err
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *boundTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	conn, err := t.network.dial(ctx, a.Addr)
	if err != nil {
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(t.ctx, func() { conn.Close() }), sync.Once{}}, nil
}

// boundConn is a connection that calls release, once, when it is closed.
type boundConn struct {
	net.Conn
	release func() bool // its result means nothing: of an outgoing one, it is the stop of a context.AfterFunc
	once    sync.Once
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.once.Do(func() { c.release() })
	return c.Conn.Close()
}
