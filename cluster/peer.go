package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
)

const (
	maxPeerConns  = 4096            // accepted connections: 256 groups with four streams from each of two peers fit
	greetWithin   = 3 * time.Second // for TLS handshake, preamble and reply together, at either end
	acceptBackoff = 50 * time.Millisecond
)

// keepAlive finds dead peers of streams on which nobody speaks, within about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// PeerConfig says what a peer port is. Fields without a default are required.
type PeerConfig struct {
	Addr     string   // host:port to listen on
	Cluster  string   // id of the cluster; a connection of another one is refused
	Node     string   // name of this node
	TLS      *PeerTLS // nil: in the clear, which off loopback needs Insecure
	Insecure bool     // in the clear wherever the port listens: whoever can reach it can change every count

	// Resolve returns where a node's peer port is now. It is asked at every dial: addresses change, names do not.
	Resolve func(node string) (addr string, ok bool)
	// Decide answers the requests that other nodes forward to this one; nil refuses them.
	Decide HopHandler
	// Answer answers the questions of other nodes, until Close; nil refuses them. It is called concurrently, and must
	// not wait: who asks gives up after 2 s. from is the node that asks. The port fills in the Report's Node.
	Answer func(from string, q Question) Report
	Logger *slog.Logger // nil: none

	// Listen and Dial are the network under the port; nil: TCP. What another Listen returns is trusted in the clear.
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
}

func (c PeerConfig) withDefaults() PeerConfig {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Listen == nil {
		c.Listen = func(addr string) (net.Listener, error) {
			tcp := net.ListenConfig{KeepAliveConfig: keepAlive}
			return tcp.Listen(context.Background(), "tcp", addr)
		}
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			tcp := net.Dialer{KeepAliveConfig: keepAlive}
			return tcp.DialContext(ctx, "tcp", addr)
		}
	}
	return c
}

// PeerPort is this node's end of everything that nodes say to each other: one listener for the Raft streams of all
// groups, for forwarded requests and for questions, and the dialer to the same port of others. All methods may be called concurrently.
type PeerPort struct {
	config       PeerConfig
	certificates *peerCertificates // nil: in the clear
	listener     net.Listener
	stopping     context.Context // ends when Close cuts what is left
	stop         context.CancelFunc
	draining     context.Context // ends when no forwarded request is to be begun any more
	drain        context.CancelFunc
	goroutines   sync.WaitGroup
	hops         sync.WaitGroup // the goroutines that serve hops, of which none begins after draining ended

	mu      sync.Mutex
	streams map[string]*Stream // by the replica's name
	conns   map[net.Conn]struct{}
	serving int // hop connections; they are not among conns, and finish what they began
	closed  bool

	refusedTold   time.Time // when a refused connection was logged
	refusedUnsaid int       // and how many were not since
}

// ListenPeers opens the port. Close must be called, after all its streams are closed or together with them.
func ListenPeers(config PeerConfig) (*PeerPort, error) {
	p := &PeerPort{config: config.withDefaults(), streams: make(map[string]*Stream), conns: make(map[net.Conn]struct{})}
	if config.TLS != nil {
		certificates, err := loadPeerCertificates(*config.TLS, config.Node, p.config.Logger)
		if err != nil {
			return nil, err
		}
		p.certificates = certificates
	}
	listener, err := p.config.Listen(config.Addr)
	if err != nil {
		return nil, fmt.Errorf("cluster: peer port: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && config.TLS == nil && !config.Insecure {
		listener.Close()
		return nil, fmt.Errorf("cluster: peer port %s is reachable by others: give it a certificate (--peer-cert, "+
			"--peer-key, --peer-ca), or --insecure-peers if everybody on that network may change counts", listener.Addr())
	}
	p.listener = listener
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.draining, p.drain = context.WithCancel(p.stopping)
	p.goroutines.Go(p.accept)
	return p, nil
}

// Addr is where the port listens.
func (p *PeerPort) Addr() net.Addr { return p.listener.Addr() }

// DrainHops ends the serving of forwarded requests: those that were begun are answered, within drainWithin, and the
// other nodes are told which were not. It returns when all is said. Raft streams go on, so that what was begun can
// commit: a node that stops calls it before its actors are closed.
func (p *PeerPort) DrainHops() {
	p.mu.Lock()
	p.drain()
	p.mu.Unlock()
	p.hops.Wait()
}

// Close ends the port: DrainHops, then every other connection is cut. It returns when all the port's goroutines have
// ended.
func (p *PeerPort) Close() error {
	p.DrainHops()
	p.mu.Lock()
	p.closed = true
	streams := p.streams
	p.streams = nil
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
	p.stop()
	err := p.listener.Close()
	for _, s := range streams {
		s.end()
	}
	p.goroutines.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stream returns the Raft stream layer of one replica of this node. Name is the replica's (node/shard/number). There is
// one stream of a name at a time: a second one is a bug of the caller and panics.
func (p *PeerPort) Stream(id shard.ID, name string) *Stream {
	s := &Stream{port: p, shard: id, name: name, incoming: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		s.end()
	case p.streams[name] != nil:
		panic("cluster: a second stream of replica " + name)
	default:
		p.streams[name] = s
	}
	return s
}
