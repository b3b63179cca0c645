package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/shard"
)

const (
	greetingShare = 4               // one in this many connections may be unidentified
	greetWithin   = 3 * time.Second // for TLS handshake, preamble and reply together, at either end
	acceptBackoff = 50 * time.Millisecond
)

// keepAlive detects dead peers of idle streams within about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// Config configures a Port. Fields without a default are required.
type Config struct {
	Listener net.Listener // takes the connections of the other nodes; the port closes it; nil: there are none
	Cluster  string       // id of the cluster; connections from other clusters are refused
	Node     string       // id of this node
	TLS      *TLS         // certificates to prove with which node this is; nil: Key does
	// Key proves which node this is if TLS is nil. If it is nil as well, connections are unencrypted, which needs
	// Insecure if Listener is one of TCP, except on loopback.
	Key      *KeyFile
	Insecure bool // allows unencrypted connections on any address: anyone who can reach the port can change every count

	// Resolve returns the current address of a node's peer port. It is called at every dial, because addresses change
	// and names do not.
	Resolve func(node string) (addr string, ok bool)
	// Listing says whether a node belongs to the cluster: one that does not may only ask. It is called for each
	// connection, and by Recheck.
	Listing func(node string) Listing
	// Decide handles the requests that other nodes forward to this one; nil refuses them.
	Decide hop.Handler
	// Answer answers the questions of other nodes, until Close; nil refuses them. It is called concurrently and must
	// not wait: the asking node, from, gives up after 2 s. The port fills in the Report's Node.
	Answer func(from string, q placement.Question) placement.Report
	// Watch opens a reader of this node's decisions, which the port closes; nil: other nodes get none.
	Watch func(*decisions.Filter) *decisions.Reader
	// Silent is called when all connections of a node have ended as those of a process that has died: ask IsDead. It
	// must not wait.
	Silent func(node string)
	Logger *slog.Logger

	Most    int              // maximum number of accepted connections
	Refused func(why string) // called for each connection refused for lack of room

	// Dial reaches the ports of other nodes; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

func (c Config) withDefaults() Config {
	if c.Dial == nil {
		tcp := net.Dialer{KeepAliveConfig: keepAlive}
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return tcp.DialContext(ctx, "tcp", addr) }
	}
	return c
}

// Port is this node's end of all communication between nodes: one listener for the Raft streams of all groups, for
// forwarded requests and for questions, and the dialer to the same port of other nodes. All methods may be called
// concurrently.
type Port struct {
	config     Config
	identity   identity        // nil: unencrypted
	stopping   context.Context // ends when Close cuts the remaining connections
	stop       context.CancelFunc
	draining   context.Context    // ends when no further forwarded request is to be begun
	drain      context.CancelFunc // called with mu held: serveHop looks and counts in one step
	goroutines sync.WaitGroup
	hops       sync.WaitGroup // goroutines that serve hops; none starts after draining has ended

	greeting *connlimit.Tally // connections that have not identified themselves yet
	deaths   deaths

	mu      sync.Mutex
	streams map[string]*Stream    // open ones, by the replica's name; nil after Close
	conns   map[net.Conn]struct{} // accepted, and not closed yet
	// peerConns has the connections, in both directions, between ends that have identified themselves.
	peerConns map[*peerConn]struct{}
	closed    bool

	refused loglimit.Limit // log lines about refused connections
}

// Listen opens the port. Close must be called, after all its streams are closed or together with them. After an error
// the listener is closed.
func Listen(config Config) (*Port, error) {
	p := &Port{config: config.withDefaults(), streams: make(map[string]*Stream), conns: make(map[net.Conn]struct{}),
		peerConns: make(map[*peerConn]struct{}), refused: loglimit.Limit{Most: 1, Per: refusedEvery}}
	p.greeting = connlimit.NewTally(max(1, p.config.Most/greetingShare))
	var err error
	if p.identity, err = p.config.identity(); err != nil {
		p.config.closeListener()
		return nil, err
	}
	tcp, ok := p.Addr().(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && p.identity == nil && !config.Insecure {
		p.config.closeListener()
		return nil, fmt.Errorf("cluster: peer port %s is reachable by others: "+
			"give all nodes the same --cluster-key FILE, or each a certificate (--peer-cert, --peer-key, --peer-ca), "+
			"or --insecure if everybody on that network may change counts",
			tcp)
	}
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.draining, p.drain = context.WithCancel(p.stopping)
	if config.Listener != nil {
		p.goroutines.Go(p.accept)
	}
	return p, nil
}

func (c *Config) closeListener() error {
	if c.Listener == nil {
		return nil
	}
	return c.Listener.Close()
}

// identity returns how this node proves its identity; nil: it does not.
func (c *Config) identity() (identity, error) {
	switch {
	case c.TLS != nil:
		return loadPeerCertificates(*c.TLS, c.Node, c.Logger, time.Now)
	case c.Key != nil:
		return newKeyIdentity(c.Key, c.Node, c.Logger)
	}
	return nil, nil
}

// CertificateEnds returns when this node's certificate expires; zero if it has none, or one that it renews itself.
func (p *Port) CertificateEnds() time.Time {
	if own, some := p.identity.(*peerCertificates); some {
		return own.files.Current().Ends
	}
	return time.Time{}
}

// AuthoritiesEnd returns when the first authority of other nodes' certificates expires; zero if there is none.
func (p *Port) AuthoritiesEnd() time.Time {
	if own, some := p.identity.(*peerCertificates); some {
		return own.files.Current().CAsEnd
	}
	return time.Time{}
}

// Addr returns the address that the port listens on; nil: it does not listen.
func (p *Port) Addr() net.Addr {
	if p.config.Listener == nil {
		return nil
	}
	return p.config.Listener.Addr()
}

// DrainHops stops serving forwarded requests. Begun requests are answered, within drainWithin, and the other nodes are
// told which ones were not begun. It returns when all of this is sent. Raft streams continue, so that begun requests
// can commit: a stopping node calls DrainHops before it closes its actors.
func (p *Port) DrainHops() {
	p.mu.Lock()
	p.drain()
	p.mu.Unlock()
	p.hops.Wait()
}

// Close calls DrainHops, then cuts every other connection. It returns when all of the port's goroutines have ended.
func (p *Port) Close() error {
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
	err := p.config.closeListener()
	for _, s := range streams {
		s.end()
	}
	p.goroutines.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stream returns the Raft stream layer of one replica of this node. name is the replica's name (node/shard/number).
// There is at most one open stream with a name: a second one is a bug of the caller and panics.
func (p *Port) Stream(id shard.ID, name string) *Stream {
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
