package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/metrics"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// ErrDisk is in the chain of a fatal error after which the disk must not be trusted: exit with status 75.
var ErrDisk = errors.New("the disk cannot be trusted")

// ErrConfig is in the chain of an error about the configuration: nothing was touched.
var ErrConfig = errors.New("configuration")

// ErrRemoved is in the chain of an error of a node that was removed from its cluster for good.
var ErrRemoved = errors.New("this node was removed from its cluster")

// diskError wraps an error from the stores in ErrDisk if the disk does not hold what was written to it.
func diskError(err error) error {
	if errors.Is(err, raftfsm.ErrCorrupt) || errors.Is(err, raftfsm.ErrLost) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// Node is one running process. Start creates it. All methods but Close may be called concurrently.
type Node struct {
	config    Config
	id        string      // of this node, forever
	policies  *policy.Set // from the policies file: for the cluster that this node founds
	metrics   *metrics.Metrics
	known     clusterView
	current   atomic.Uint64 // version of the system shard's table, as read after this process started; 0: not read
	hints     *gossip.Hints
	router    *routing.Router
	hop       *hop.Hop
	gossip    Membership
	stores    *raftfsm.Stores // nil until the cluster is known
	formation *gossip.Formation
	founding  atomic.Pointer[gossip.Formation] // the one that this node takes part in
	port      *peer.Port                       // nil until the cluster is known, as is probe
	probe     *peer.HealthProbe

	mu        sync.RWMutex
	running   map[shard.ID]*replica                  // guarded by mu
	lost      map[raftfsm.Replica]bool               // guarded by mu: must not be opened
	convicted map[raftfsm.Replica]raftfsm.Conviction // guarded by mu: likewise; as in the stores

	limits   limits
	peers    net.Listener // of the peer port, until port takes it over
	listener net.Listener
	server   *http.Server
	grpc     *grpcDoor // nil: there is none
	api      *api.API
	serving  sync.WaitGroup

	redisListener net.Listener // nil: there is none
	redis         *redis.Server

	ctx      context.Context // ends when the reconciler is to end
	cancel   context.CancelFunc
	tasks    *tasks
	kicked   chan struct{} // capacity 1: something changed
	joined   chan struct{} // closed once port and probe are set
	steering sync.WaitGroup
	stopping atomic.Bool
	late     atomic.Uint64 // requests that came while the node stops
	fatal    chan error    // capacity 1: the first reason to stop

	throttle logThrottle
}

// Start starts a node and returns when its API listens. It finds, founds or rejoins its cluster in the background: AwaitReady
// waits for that. It fails when anything in the configuration, the policies or the data directory is wrong; then nothing is
// left running.
func Start(ctx context.Context, config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{
		known:   clusterView{learning: make(chan struct{}, 1)},
		config:  config,
		metrics: metrics.New(),
		hints:   gossip.NewHints(maxShards),
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
		case fatal := <-n.fatal: // the cause of the failure
			return nil, fatal
		default:
		}
		if !errors.Is(err, ErrDisk) { // an orderly stop would wait for the disk
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
	if err := n.shareOut(); err != nil {
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
	n.hop = hop.New(n.dialHop)
	n.hop.Level = n.level
	n.metrics.Hop(func() uint64 { return n.hop.Stats().Requests }, func() uint64 { return n.hop.Stats().Frames })
	n.router = routing.New(routing.Config{
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
	n.metrics.Stopped(n.stoppedShards)
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

// run joins the cluster and then runs the reconciler.
func (n *Node) run() {
	if err := n.join(n.ctx); err != nil {
		if n.ctx.Err() == nil {
			n.fail(err)
		}
		return
	}
	n.reconcileForever(n.ctx)
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

// findClusterOnce skips the search if the table is known already.
func (n *Node) findClusterOnce(ctx context.Context) error {
	if n.stores != nil && n.known.newest().Table != nil {
		return nil
	}
	return n.findCluster(ctx)
}

// openKeptStores opens the data directory if there is one; a new one is created once the cluster is known.
func (n *Node) openKeptStores() error {
	n.id = n.config.NodeID
	if !raftfsm.Exists(n.config.DataDir, n.config.World.FS) {
		if n.id == "" {
			n.id = randomID()
		}
		return n.checkNewPolicies()
	}
	if err := n.openStores(raftfsm.Identity{}, nil, 0); err != nil {
		return err
	}
	n.id = n.stores.Identity().Node
	return nil
}

// checkNewPolicies refuses a file that may come into force here, by the same rule as Apply. It does not keep a node with data
// from starting: an older release may have accepted the policies in force there.
func (n *Node) checkNewPolicies() error {
	if path, problem := n.policies.Mistake(); problem != "" {
		return fmt.Errorf("%s: %s: %s", n.config.PoliciesFile, path, problem)
	}
	return nil
}

// checkCertificate refuses early what the peer port would refuse after the cluster is found and the data directory created.
func (n *Node) checkCertificate() error {
	if n.config.PeerTLS == nil {
		return nil
	}
	if err := n.config.PeerTLS.Check(n.id); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

func (n *Node) openStores(fresh raftfsm.Identity, kept map[string]any, level shard.Level) (err error) {
	n.stores, err = raftfsm.OpenStores(n.config.DataDir, raftfsm.StoresConfig{
		Fresh:        fresh,
		FreshRecords: kept,
		FreshLevel:   level,
		Newest:       n.newestLevel(),
		Release:      n.config.Version,
		Node:         n.config.NodeID,
		Fatal:        func(err error) { n.fail(fmt.Errorf("%w: %w", ErrDisk, err)) },
		Logger:       n.config.Logger,
		FS:           n.config.World.FS,
		Tables:       n.limits.shares.Tables,
	})
	if err != nil {
		return diskError(err)
	}
	n.mu.Lock()
	n.convicted = n.stores.Convictions()
	n.mu.Unlock()
	return nil
}

func (n *Node) readKeptIfAny() error {
	if n.stores == nil {
		return nil
	}
	if err := n.readRecords(); err != nil {
		return err
	}
	if err := n.checkPlace(); err != nil {
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

// startGossip announces this node. A node that no other node can join has no gossip.
func (n *Node) startGossip() (err error) {
	if n.peers == nil && n.config.World.Listen == nil {
		n.gossip = newSoloMembership(n.self())
		return nil
	}
	key, err := n.config.gossipKey()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	config := gossip.Config{
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
		Streams:    n.limits.shares.Gossip,
		OnRefused:  func(why string) { n.metrics.Refused("gossip", why) },
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
		n.gossip, err = newSoloMembership(n.self()), nil
	}
	return err
}

// self describes this node as gossip would.
func (n *Node) self() gossip.Member {
	m := gossip.Member{Node: n.id, Zone: n.config.Zone, Version: n.config.Version, PeerAddr: n.config.PeerAddr,
		GossipAddr: n.config.GossipAddr, APIAddr: n.config.APIAddr, State: gossip.MemberAlive,
		Expect: n.formationSelf().Expect, Formation: n.formation}
	if n.listener != nil {
		m.APIAddr = n.listener.Addr().String()
	}
	if n.stores != nil {
		m.Cluster = n.stores.Identity().Cluster
	}
	return m
}

// openPort opens the peer port for the cluster that this node belongs to, and starts the health probe.
func (n *Node) openPort() (err error) {
	config := peer.Config{
		Addr:     n.config.PeerAddr,
		Cluster:  n.stores.Identity().Cluster,
		Node:     n.id,
		TLS:      n.config.PeerTLS,
		Insecure: n.config.InsecurePeers,
		Most:     n.limits.shares.Peers,
		Resolve:  n.peerAddr,
		Decide:   n.router.Forwarded,
		Answer:   n.answer,
		Refused:  func(why string) { n.metrics.Refused("peers", why) },
		Logger:   n.config.Logger,
		Listen:   n.config.World.Listen,
		Dial:     n.config.World.Dial,
	}
	if config.Listen == nil {
		config.Listen = func(string) (net.Listener, error) { return n.takeListener(), nil }
	}
	if n.port, err = peer.Listen(config); err != nil {
		return err
	}
	n.probe = peer.StartHealthProbe(peer.HealthProbeConfig{
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

// hasJoined reports whether this node belongs to a cluster, with port and probe open.
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

// hasSessions reports whether requests to a shard travel in sessions. A shard with one replica needs none: no other node
// could take over and be asked again.
func (n *Node) hasSessions(id shard.ID) bool {
	t := n.known.newest()
	if t.Table == nil {
		return false
	}
	g := t.Group(id)
	return g != nil && len(g.Replicas) > 1
}

// AwaitReady waits until every shard can be served or forwarded. It returns the reason to stop, if there is one, or an error
// that says what is missing when ctx ends.
func (n *Node) AwaitReady(ctx context.Context) error {
	for n.Ready() != nil {
		select {
		case err := <-n.fatal:
			return err
		case <-time.After(5 * time.Millisecond): // it polls: readiness depends on many places, most of them on other nodes
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", n.Ready())
		}
	}
	return nil
}

// Decide decides requests wherever their keys live, and returns one result for each, in order. An error in a result says
// whether its request may have been applied (shard.Error's MaybeApplied). It may be called concurrently.
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
		Stale:          n.readReplicas,
		Ready:          n.Ready,
		Observer:       n.metrics,
		Metrics:        n.scrape(),
		Hosts:          n.config.APIHosts,
		RequestTimeout: n.config.RequestTimeout,
	})
	n.server = api.NewServer(n.hangUpWhenStopping(n.api), n.config.Logger)
	n.serving.Go(func() {
		if err := n.server.Serve(n.limits.apiDoor(n.listener)); !errors.Is(err, http.ErrServerClosed) && !n.stopping.Load() {
			n.fail(fmt.Errorf("serving the API: %w", err))
		}
	})
	if n.grpc != nil {
		n.grpc.serve(n)
	}
}

// hangUpWhenStopping asks HTTP/1 clients to leave after their next reply, before the port is closed: a connection that is
// closed while a request is on its way would fail that request.
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

// scrape updates the metrics that only a scrape needs, then answers it.
func (n *Node) scrape() http.Handler {
	handler := n.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, r := range n.replicas() {
			r.group.View(func(s *shard.State) {
				n.metrics.Keys(uint32(r.Shard), s.Records(), s.Bytes())
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

// Done yields the reason why the node must stop, at most once.
func (n *Node) Done() <-chan error { return n.fatal }

func (n *Node) fail(err error) {
	select {
	case n.fatal <- err:
	default: // there is a first reason already
	}
}
