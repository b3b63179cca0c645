package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/calllog"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// Node is one running process. Start creates it. All methods but Close may be called concurrently. It holds, starts and
// stops the parts that assemble connects; all state and work is theirs.
type Node struct {
	process
	id         string        // of this node, forever; known once the data directory was looked at
	key        *peer.KeyFile // the cluster key; nil: there is none. Opened by the start
	gossipKeys [][]byte      // of the start; none: gossip without keys
	dir        *dataDir
	replicas   *replicaSet

	// Set by assemble, all at once.
	hints       *gossip.Hints
	peers       *peers
	duplicates  *duplicateGuard
	reporter    *reporter
	readiness   *readiness
	stale       *staleReader
	admin       *admin
	tokenAdmin  *tokenAdmin
	secretAdmin *secretAdmin
	sinkAdmin   *sinkAdmin
	dispatcher  *dispatcher
	pusher      *pusher
	topReader   *topReader
	watcher     *watcher
	founder     *founder
	handover    *handover
	succession  *succession
	opener      *opener
	reconciler  *reconciler

	tracer *trace.Tracer // nil: nothing is followed
	calls  *calllog.Log

	tasks   *tasks
	changed notifier // wakes the founder, then the reconciler
}

// Start starts a node and returns when its API listens. It finds, founds or rejoins its cluster in the background:
// AwaitReady waits for that. It fails when anything in the configuration, the policies or the data directory is wrong;
// then nothing is left running.
func Start(ctx context.Context, config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{changed: newNotifier()}
	n.init(config)
	n.tasks = newTasks(n.ctx, config.World.Now, config.Logger, n.changed)
	n.replicas = newReplicaSet(config.World.Now)
	n.dir = &dataDir{path: config.DataDir, opened: n.replicas.readConvictions}
	n.documents = newDocuments(n.dir, config.Logger, n.fail)
	n.tokens = newTokens(n.documents, config.alone(), config.now())
	if err := untrusted(n.start()); err != nil {
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

func (n *Node) start() error {
	policies, err := n.config.readPolicies()
	if err != nil {
		return err
	}
	n.config.warnOfExposed()
	// Ports before the disk: a second node started by mistake fails here, quickly and clearly.
	if err := n.ports.prepare(n.tokens.guard, n.metrics); err != nil {
		return err
	}
	if err := n.openKeptStores(policies); err != nil {
		return err
	}
	if err := inOrder(n.checkCertificate, n.openKeys); err != nil {
		return err
	}
	n.assemble(policies)
	if err := inOrder(n.readKeptIfAny, n.startGossip, n.startTracer); err != nil {
		return err
	}
	n.serve()
	n.running.Go(n.run)
	n.running.Go(func() { n.dispatcher.run(n.ctx) })
	n.running.Go(func() { n.pusher.run(n.ctx) })
	if n.key != nil {
		n.running.Go(n.watchKey)
	}
	return nil
}

// openKeptStores opens the data directory if there is one; a new one is created once the cluster is known.
func (n *Node) openKeptStores(policies *policy.Set) error {
	n.dir.config = raftfsm.StoresConfig{
		Newest:  n.config.newestLevel(),
		Release: n.config.Version,
		Node:    n.config.NodeID,
		Fatal:   func(err error) { n.fail(fmt.Errorf("%w: %w", ErrDisk, err)) },
		Logger:  n.config.Logger,
		FS:      n.config.World.FS,
		Tables:  n.ports.limits.shares.Tables,
	}
	n.id = n.config.NodeID
	if !n.dir.exists() {
		if n.id == "" {
			n.id = placement.RandomID()
		}
		return n.checkNewPolicies(policies)
	}
	if n.config.TestClock {
		return fmt.Errorf("%w: test-clock: %s exists: a clock that tests move needs a new data directory",
			ErrConfig, n.config.DataDir)
	}
	if err := n.dir.open(); err != nil {
		return err
	}
	if err := raftfsm.RefuseTestClock(n.config.DataDir, n.dir.read); err != nil {
		return fmt.Errorf("%w: data-dir: %w", ErrConfig, err)
	}
	n.id = n.dir.stores.Identity().Node
	return nil
}

// checkNewPolicies refuses a file that may come into force here, by the same rule as Apply. It does not keep a node
// with data from starting: an older release may have accepted the policies in force there.
func (n *Node) checkNewPolicies(policies *policy.Set) error {
	if path, problem := policies.Mistake(); problem != "" {
		return fmt.Errorf("%w: policies: %s: %s: %s", ErrConfig, n.config.PoliciesFile, path, problem)
	}
	return nil
}

// checkCertificate refuses early what the peer port would refuse after the cluster is found and the data directory
// created.
func (n *Node) checkCertificate() error {
	if n.config.PeerTLS == nil {
		return nil
	}
	if err := n.config.PeerTLS.Check(n.id); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// readKeptIfAny restores what this node wrote down before.
func (n *Node) readKeptIfAny() error {
	if n.dir.stores == nil {
		return nil
	}
	if err := inOrder(n.founder.readKept, n.documents.readKept, n.tokens.join); err != nil {
		return err
	}
	if err := n.view.checkPlace(n.config.mayBeJoined()); err != nil {
		return err
	}
	t := n.view.newestTable()
	if n.view.hasTable() && (int(t.Shards) != n.config.Shards || t.Replicas != n.config.Replicas) {
		n.config.Logger.Info("shards and replicas were fixed when the cluster was created; stint status shows them",
			"shards", t.Shards, "replicas", t.Replicas, "ignored_shards", n.config.Shards,
			"ignored_replicas", n.config.Replicas)
	}
	return nil
}

// serve serves the clients' ports.
func (n *Node) serve() {
	config := api.Config{
		Tokens:       n.tokenAdmin,
		NewestSealer: n.secretAdmin.newestSealer,
		Document:     n.documents.ofEdges,
		Secrets:      n.secretAdmin,
		Sinks:        n.sinkAdmin,
		KeySources:   n.dispatcher.poster.Transport(),
		Cluster:      n.admin,
		Top:          n.topReader,
		Listeners:    decisions.Listeners{n.tracer, n.metrics, n.calls, n.decisions},
		Watcher:      n.watcher,
		Shards:       n.view.shards,
		Slots:        n.view.slots,
		Stale:        n.stale.read,
		Ready:        n.Ready,
		Tracer:       n.tracer,
		Metrics:      n.metrics.Handler(),
	}
	if clock := n.config.testClock; clock != nil {
		config.TestClock = &testClockAdmin{clock, n.view, n.router}
	}
	n.serveClients(config)
}

// run joins the cluster and then runs the reconciler.
func (n *Node) run() {
	if err := n.join(n.ctx); err != nil {
		if n.ctx.Err() == nil {
			n.fail(err)
		}
		return
	}
	n.reconciler.run(n.ctx)
}

// join finds the cluster and opens what this node has of it.
func (n *Node) join(ctx context.Context) error {
	if n.dir.stores == nil || !n.view.hasTable() { // else the cluster is known already
		if err := n.founder.findCluster(ctx); err != nil {
			return err
		}
		if !n.config.alone() {
			if err := n.tokens.join(); err != nil {
				return err
			}
		}
	}
	n.ports.serveLocal(n.config.DataDir)
	if err := n.openPort(); err != nil {
		return err
	}
	n.makeOwnKey()
	return n.founder.openSystem(n.opener)
}

// openPort opens the peer port for the cluster that this node belongs to, and starts the health probe.
func (n *Node) openPort() error {
	port := peer.Config{
		Listener: n.ports.peers,
		Cluster:  n.dir.cluster(),
		Node:     n.id,
		TLS:      n.config.PeerTLS,
		Key:      n.key,
		Insecure: n.config.InsecurePeers,
		Most:     n.ports.limits.shares.Peers,
		Decide:   n.tracer.Owner(n.router.Forwarded),
		Listing:  n.view.listing,
		Answer:   n.reporter.answer,
		Watch:    n.decisions.Open,
		Silent:   n.succession.silent,
		Refused:  func(why string) { n.metrics.Refused("peers", why) },
		Logger:   n.config.Logger,
		Dial:     n.config.World.Dial,
	}
	return n.peers.join(port, peer.HealthProbeConfig{
		Node:     n.id,
		Question: n.reporter.question,
		OnReport: n.reporter.heard,
		Now:      n.config.World.Now,
		Logger:   n.config.Logger,
	})
}

// ID is the node's id.
func (n *Node) ID() string { return n.id }

// Admin returns what the API administers the cluster by. It is for simulations, which run nodes without an API.
func (n *Node) Admin() api.ClusterAdmin { return n.admin }

// Standings describes the state of each of this node's replicas. They keep running meanwhile.
func (n *Node) Standings() []Standing { return n.replicas.standings() }

// Ready returns nil when this node can serve or forward every shard and its own replicas are open and nearly up to
// date; otherwise it says what is missing.
func (n *Node) Ready() error { return n.readiness.check() }

// AwaitReady waits until every shard can be served or forwarded. It returns the reason to stop, if there is one, or an
// error that says what is missing when ctx ends.
func (n *Node) AwaitReady(ctx context.Context) error { return n.awaitReady(ctx, n.Ready) }

// Decide decides requests wherever their keys live, and returns one result for each, in order. An error in a result
// says whether its request may have been applied (shard.Error's MaybeApplied). It may be called concurrently.
func (n *Node) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return n.router.Decide(ctx, requests)
}
