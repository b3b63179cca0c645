package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/metrics"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// ErrDisk is in the chain of a fatal error after which the disk must not be trusted: exit with status 75.
var ErrDisk = errors.New("the disk cannot be trusted")

// ErrConfig is in the chain of an error about the configuration: nothing was touched.
var ErrConfig = errors.New("configuration")

// diskError marks an error from the stores if what is on the disk is not what was written there.
func diskError(err error) error {
	if errors.Is(err, raftfsm.ErrCorrupt) || errors.Is(err, raftfsm.ErrLost) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// Node is one running process.
type Node struct {
	config    Config
	id        string      // of this node, for ever
	policies  *policy.Set // of the file: for the cluster that this node founds
	metrics   *metrics.Metrics
	known     knowledge
	current   atomic.Uint64 // version of the table as the system shard had it after this process began; 0: not read
	hints     *cluster.Hints
	router    *cluster.Router
	hop       *cluster.Hop
	gossip    Membership
	stores    *raftfsm.Stores // nil until the cluster is known
	formation *cluster.Formation
	founding  atomic.Pointer[cluster.Formation] // that this node takes part in
	port      *cluster.PeerPort                 // nil until the cluster is known, as pulse
	pulse     *cluster.Pulse

	mu      sync.RWMutex
	running map[shard.ID]*replica    // guarded by mu
	lost    map[raftfsm.Replica]bool // guarded by mu: must not be opened

	peers    net.Listener // of the peer port, until it takes it over
	listener net.Listener
	server   *http.Server
	grpc     *grpcDoor // nil: there is none
	api      *api.API
	serving  sync.WaitGroup

	redisListener net.Listener // nil: there is none
	redis         *redis.Server

	ctx      context.Context // ends when the steward is to end
	cancel   context.CancelFunc
	tasks    *tasks
	kicked   chan struct{} // of capacity 1: something changed
	joined   chan struct{} // closed when port and pulse are there
	steering sync.WaitGroup
	stopping atomic.Bool
	late     atomic.Uint64 // calls that came while the node stops
	fatal    chan error    // of capacity 1: the first reason to stop

	complaints complaints
}

// Start starts a node and returns when its API listens. It finds, founds or comes back to its cluster in the background:
// AwaitReady waits for that. It fails when anything in the configuration, the policies or the data directory is wrong;
// then nothing is left running.
func Start(ctx context.Context, config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{
		config:  config,
		metrics: metrics.New(),
		hints:   cluster.NewHints(maxShards),
		running: make(map[shard.ID]*replica),
		lost:    make(map[raftfsm.Replica]bool),
		kicked:  make(chan struct{}, 1),
		joined:  make(chan struct{}),
		fatal:   make(chan error, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.tasks = newTasks(n.ctx)
	if err := n.start(); err != nil {
		select {
		case fatal := <-n.fatal: // the reason behind whatever failed in its wake
			return nil, fatal
		default:
		}
		if !errors.Is(err, ErrDisk) { // a stop in order would wait for the disk
			n.Close(ctx)
		}
		return nil, err
	}
	return n, nil
}

func (n *Node) start() (err error) {
	if n.policies, err = n.config.readPolicies(); err != nil {
		return err
	}
	// Ports before the disk: a second node started by mistake fails here, quickly and clearly.
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.openKeptStores(); err != nil {
		return err
	}
	if err := n.checkCertificate(); err != nil {
		return err
	}
	n.hop = cluster.NewHop(n.dialHop)
	n.metrics.Hop(func() uint64 { return n.hop.Stats().Requests }, func() uint64 { return n.hop.Stats().Frames })
	n.router = cluster.NewRouter(cluster.RouterConfig{
		Node:     n.id,
		Shards:   func() uint32 { return uint32(n.shards()) },
		Places:   n.voterNodes,
		Local:    n.local,
		Leader:   n.leader,
		Forward:  n.hop,
		Hints:    n.hints,
		Sessions: n.hasSessions,
		Policies: n.known.revision,
	})
	n.metrics.Denials(n.router.DenialsKept)
	if err := n.readKeptIfAny(); err != nil {
		return err
	}
	if err := n.startGossip(); err != nil {
		return err
	}
	n.serve()
	n.serveRedis()
	n.steering.Go(n.run)
	return nil
}

// run is the node's life behind its API.
func (n *Node) run() {
	if err := n.join(n.ctx); err != nil {
		if n.ctx.Err() == nil {
			n.fail(err)
		}
		return
	}
	n.steward(n.ctx)
}

// join finds the cluster and opens what this node has of it.
func (n *Node) join(ctx context.Context) error {
	if err := n.findClusterOnce(ctx); err != nil {
		return err
	}
	if err := n.openPort(); err != nil {
		return err
	}
	return n.openSystem()
}

// findClusterOnce passes over the search where the table is known already.
func (n *Node) findClusterOnce(ctx context.Context) error {
	if n.stores != nil && n.known.newest().Table != nil {
		return nil
	}
	return n.findCluster(ctx)
}

// listen takes the ports. A node alone goes on without those for other nodes: two of them on one machine need not care.
func (n *Node) listen() (err error) {
	if !n.config.World.NoAPI {
		if n.listener, err = net.Listen("tcp", n.config.APIAddr); err != nil {
			return listenError("api-addr", err)
		}
		if n.grpc, err = listenGRPC(n.config.GRPCAddr); err != nil {
			return err
		}
	}
	if n.config.RedisAddr != "" {
		if n.redisListener, err = net.Listen("tcp", n.config.RedisAddr); err != nil {
			return listenError("redis-addr", err)
		}
	}
	if n.config.Dev || n.config.World.Listen != nil {
		return nil
	}
	if n.peers, err = net.Listen("tcp", n.config.PeerAddr); err == nil {
		return nil
	}
	if n.config.alone() && n.config.PeerAddr == defaultPeerAddr {
		n.config.Logger.Warn("no other node can join this one: the peer port is taken; --peer-addr names another",
			"error", err)
		return nil
	}
	return listenError("peer-addr", err)
}

// listenError tells an address that cannot be meant from one that is taken.
func listenError(flag string, err error) error {
	var network *net.OpError
	var syscallError *os.SyscallError
	if errors.As(err, &network) && !errors.As(err, &syscallError) {
		return fmt.Errorf("%w: %s: %w", ErrConfig, flag, err)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// openKeptStores opens the data directory if there is one; a new one is made when the cluster is known.
func (n *Node) openKeptStores() error {
	n.id = n.config.NodeID
	if !raftfsm.Exists(n.config.DataDir, n.config.World.FS) {
		if n.id == "" {
			n.id = randomID()
		}
		return nil
	}
	if err := n.openStores(raftfsm.Identity{}, nil); err != nil {
		return err
	}
	n.id = n.stores.Identity().Node
	return nil
}

// checkCertificate refuses early what the peer port would refuse when the cluster is found, and the data directory made.
func (n *Node) checkCertificate() error {
	if n.config.PeerTLS == nil {
		return nil
	}
	if err := n.config.PeerTLS.Check(n.id); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

func (n *Node) openStores(fresh raftfsm.Identity, kept map[string]any) (err error) {
	n.stores, err = raftfsm.OpenStores(n.config.DataDir, raftfsm.StoresConfig{
		Fresh:     fresh,
		FreshKept: kept,
		Node:      n.config.NodeID,
		Fatal:     func(err error) { n.fail(fmt.Errorf("%w: %w", ErrDisk, err)) },
		Logger:    n.config.Logger,
		FS:        n.config.World.FS,
	})
	return diskError(err)
}

func (n *Node) readKeptIfAny() error {
	if n.stores == nil {
		return nil
	}
	if err := n.readKept(); err != nil {
		return err
	}
	if t := n.known.newest(); t.Table != nil && (int(t.Shards) != n.config.Shards || t.Replicas != n.config.Replicas) {
		n.config.Logger.Info("shards and replicas were fixed when the cluster was created; stint status shows them",
			"shards", t.Shards, "replicas", t.Replicas, "ignored_shards", n.config.Shards,
			"ignored_replicas", n.config.Replicas)
	}
	return nil
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// startGossip makes this node known. A node that no other can join has none.
func (n *Node) startGossip() (err error) {
	if n.peers == nil && n.config.World.Listen == nil {
		n.gossip = newNobody(n.self())
		return nil
	}
	key, err := n.config.gossipKey()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	config := cluster.GossipConfig{
		Addr:       n.config.GossipAddr,
		Advertise:  n.config.Advertise,
		Node:       n.id,
		PeerAddr:   n.config.PeerAddr,
		APIAddr:    n.config.APIAddr,
		Zone:       n.config.Zone,
		Version:    n.config.Version,
		Seeds:      n.config.Join,
		Key:        key,
		Insecure:   n.config.InsecurePeers,
		Expect:     n.formationSelf().Expect,
		Formation:  n.formation,
		Registered: n.gossipAddrs,
		OnChange:   func() { n.router.Wake(); n.kick() },
		Hints:      n.hints,
		Logger:     n.config.Logger,
	}
	if n.peers != nil {
		config.PeerAddr = n.peers.Addr().String()
	}
	if n.listener != nil {
		config.APIAddr = n.listener.Addr().String()
	}
	if n.stores != nil {
		config.Cluster = n.stores.Identity().Cluster
	}
	n.gossip, err = n.config.World.Gossip(config)
	if err != nil && n.config.alone() && n.config.GossipAddr == defaultGossipAddr {
		n.config.Logger.Warn("no other node can join this one; --gossip-addr names another port", "error", err)
		n.gossip, err = newNobody(n.self()), nil
	}
	return err
}

// self is this node as gossip would show it.
func (n *Node) self() cluster.Member {
	m := cluster.Member{Node: n.id, Zone: n.config.Zone, Version: n.config.Version, PeerAddr: n.config.PeerAddr,
		GossipAddr: n.config.GossipAddr, APIAddr: n.config.APIAddr, State: cluster.MemberAlive,
		Expect: n.formationSelf().Expect, Formation: n.formation}
	if n.listener != nil {
		m.APIAddr = n.listener.Addr().String()
	}
	if n.stores != nil {
		m.Cluster = n.stores.Identity().Cluster
	}
	return m
}

// openPort opens the peer port for the cluster that this node belongs to, and begins to ask the others how they are.
func (n *Node) openPort() (err error) {
	config := cluster.PeerConfig{
		Addr:     n.config.PeerAddr,
		Cluster:  n.stores.Identity().Cluster,
		Node:     n.id,
		TLS:      n.config.PeerTLS,
		Insecure: n.config.InsecurePeers,
		Resolve:  n.peerAddr,
		Decide:   n.router.Forwarded,
		Answer:   n.answer,
		Logger:   n.config.Logger,
		Listen:   n.config.World.Listen,
		Dial:     n.config.World.Dial,
	}
	if config.Listen == nil {
		config.Listen = func(string) (net.Listener, error) { return n.takeListener() }
	}
	if n.port, err = cluster.ListenPeers(config); err != nil {
		return err
	}
	n.pulse = cluster.StartPulse(cluster.PulseConfig{
		Node:     n.id,
		Others:   n.others,
		Dial:     n.port.DialAsk,
		Question: n.known.question,
		OnReport: n.heard,
		Now:      n.config.World.Now,
		Logger:   n.config.Logger,
	})
	close(n.joined)
	return nil
}

// takeListener is the listener that was opened at the start; one that nobody reaches where there is none.
func (n *Node) takeListener() (net.Listener, error) {
	if n.peers == nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return n.peers, nil
}

// hasJoined tells whether this node belongs to a cluster, with port and pulse open.
func (n *Node) hasJoined() bool {
	select {
	case <-n.joined:
		return true
	default:
		return false
	}
}

func (n *Node) dialHop(ctx context.Context, node string) (net.Conn, error) {
	if !n.hasJoined() {
		return nil, errors.New("this node belongs to no cluster yet")
	}
	return n.port.DialHop(ctx, node)
}

// hasSessions tells whether requests to a shard travel in sessions: where nobody else can take over, there is nobody to
// ask again.
func (n *Node) hasSessions(id shard.ID) bool {
	t := n.known.newest()
	if t.Table == nil {
		return false
	}
	g := t.Group(id)
	return g != nil && len(g.Replicas) > 1
}

// AwaitReady waits until every shard can be served or forwarded.
func (n *Node) AwaitReady(ctx context.Context) error {
	for n.Ready() != nil {
		select {
		case err := <-n.fatal:
			return err
		case <-time.After(5 * time.Millisecond): // what it depends on comes from many places, most of them elsewhere
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", n.Ready())
		}
	}
	return nil
}

// Decide has requests decided wherever their keys live. It may be called concurrently.
func (n *Node) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return n.router.Decide(ctx, requests)
}

func (n *Node) serve() {
	if n.listener == nil {
		return
	}
	n.api = api.New(api.Config{
		Decider:        n.router,
		Revision:       n.known.revision,
		Sealer:         n.known.sealer,
		Cluster:        admin{n},
		Shards:         n.shards,
		Ready:          n.Ready,
		Observer:       n.metrics,
		Metrics:        n.scrape(),
		RequestTimeout: n.config.RequestTimeout,
	})
	n.server = api.NewServer(n.hangUpWhenStopping(n.api), n.config.Logger)
	n.serving.Go(func() {
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) && !n.stopping.Load() {
			n.fail(fmt.Errorf("serving the API: %w", err))
		}
	})
	if n.grpc != nil {
		n.grpc.serve(n)
	}
}

// hangUpWhenStopping has clients of HTTP/1 leave after their next answer, before the port is closed: a connection that
// is closed while a request is on its way would fail that request.
func (n *Node) hangUpWhenStopping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.stopping.Load() {
			n.late.Add(1)
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// scrape looks at what only a scrape asks for, then answers it.
func (n *Node) scrape() http.Handler {
	handler := n.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, r := range n.replicas() {
			r.group.View(func(s *shard.State) {
				n.metrics.Keys(uint32(r.Shard), s.Records())
				n.metrics.LegsOpen(uint32(r.Shard), s.OpenLegs())
			})
		}
		handler.ServeHTTP(w, r)
	})
}

// ID is the node's id.
func (n *Node) ID() string { return n.id }

// APIAddr is the address on which the API really listens.
func (n *Node) APIAddr() string { return n.listener.Addr().String() }

// Done yields the reason for which the node must stop, at most once.
func (n *Node) Done() <-chan error { return n.fatal }

func (n *Node) fail(err error) {
	select {
	case n.fatal <- err:
	default: // there is a first reason already
	}
}
