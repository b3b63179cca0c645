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

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/limit"
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
	config   Config
	policies *policy.Set // of this start; nothing changes it
	metrics  *metrics.Metrics
	stores   *raftfsm.Stores
	groups   []*raftfsm.Group // by shard
	actors   []*actor.Actor   // by shard
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
	stopping atomic.Bool
	opened   chan struct{} // of capacity 1: an epoch was opened
	fatal    chan error    // of capacity 1: the first reason to stop
}

// Start starts a node and returns when every shard can decide and the API listens. It fails when ctx ends before, or
// when anything in the configuration, the policies or the data directory is wrong; then nothing is left running.
func Start(ctx context.Context, config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{config: config, metrics: metrics.New(), opened: make(chan struct{}, 1), fatal: make(chan error, 1)}
	if err := n.start(ctx); err != nil {
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

func (n *Node) start(ctx context.Context) (err error) {
	if n.policies, err = n.config.readPolicies(); err != nil {
		return err
	}
	// The port before the disk: a second node started by mistake fails here, quickly and clearly.
	if n.listener, err = net.Listen("tcp", n.config.APIAddr); err != nil {
		return listenError(err)
	}
	if err := n.openStores(); err != nil {
		return err
	}
	for id := range n.stores.Identity().Shards {
		if err := n.openShard(shard.ID(id)); err != nil {
			return err
		}
	}
	if err := n.awaitEpochs(ctx); err != nil {
		return err
	}
	n.serve()
	return nil
}

// listenError tells an address that cannot be meant from one that is taken.
func listenError(err error) error {
	var network *net.OpError
	var syscallError *os.SyscallError
	if errors.As(err, &network) && !errors.As(err, &syscallError) {
		return fmt.Errorf("%w: api-addr: %w", ErrConfig, err)
	}
	return fmt.Errorf("api-addr: %w", err)
}

func (n *Node) openStores() (err error) {
	fresh := raftfsm.Identity{Cluster: randomID(), Node: n.config.NodeID, Shards: uint32(n.config.Shards)}
	if fresh.Node == "" {
		fresh.Node = randomID()
	}
	n.stores, err = raftfsm.OpenStores(n.config.DataDir, raftfsm.StoresConfig{
		Fresh:  fresh,
		Node:   n.config.NodeID,
		Fatal:  func(err error) { n.fail(fmt.Errorf("%w: %w", ErrDisk, err)) },
		Logger: n.config.Logger,
	})
	if err != nil {
		return diskError(err)
	}
	if kept := n.stores.Identity().Shards; kept != uint32(n.config.Shards) {
		n.config.Logger.Info("the number of shards was fixed when the data directory was created", "shards", kept,
			"ignored", n.config.Shards)
	}
	return nil
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// openShard starts the only replica of a shard, and its actor.
func (n *Node) openShard(id shard.ID) error {
	replica := raftfsm.Replica{Shard: id, Number: 1}
	voters := []string{replica.Name(n.stores.Identity().Node)}
	if err := raftfsm.CreateGroup(n.stores, replica, voters); err != nil {
		return diskError(err)
	}
	var a atomic.Pointer[actor.Actor] // leadership may be won before there is an actor to tell
	group, err := raftfsm.OpenGroup(n.stores, raftfsm.GroupConfig{
		Replica: replica,
		OnLeadership: func() {
			if a := a.Load(); a != nil {
				a.Hint()
			}
		},
		Observer: raftfsm.Observer{
			Appended: n.metrics.Append,
			Applied:  func(o shard.Outcome) { n.countDrop(id, o) },
		},
	})
	if err != nil {
		return diskError(err)
	}
	n.groups = append(n.groups, group)
	started := actor.Start(id, group, n.actorConfig(id))
	a.Store(started)
	started.Hint()
	n.actors = append(n.actors, started)
	return nil
}

func (n *Node) countDrop(id shard.ID, o shard.Outcome) {
	if o.Dropped != shard.NotDropped {
		n.metrics.Drop(uint32(id), o.Dropped.String())
	}
}

func (n *Node) actorConfig(id shard.ID) actor.Config {
	return actor.Config{
		Policies:   func() *policy.Set { return n.policies },
		AcceptStep: n.config.AcceptTime,
		MaxBytes:   maxRecordBytes(n.stores.Identity().Shards),
		Observer: actor.Observer{
			Batch:    func(requests, effects, bytes int) { n.metrics.Batch(uint32(id), requests, effects, bytes) },
			Commit:   func(took time.Duration) { n.metrics.Commit(uint32(id), took) },
			Epoch:    func(epoch uint64) { n.noteEpoch(id, epoch) },
			TimeStep: func(last, now limit.Time) { n.fail(timeStepError(id, last, now)) },
			Frozen:   func(behind time.Duration) { n.noteFrozen(id, behind) },
			Full:     func() { n.noteFull(id) },
		},
	}
}

func (n *Node) noteEpoch(id shard.ID, epoch uint64) {
	n.metrics.Epoch(uint32(id), epoch)
	select {
	case n.opened <- struct{}{}:
	default:
	}
}

func (n *Node) noteFrozen(id shard.ID, behind time.Duration) {
	n.metrics.Frozen(uint32(id))
	n.config.Logger.Error("shard time stands still: this machine's clock is behind what it was; set the clock",
		"shard", id, "behind", behind)
}

func (n *Node) noteFull(id shard.ID) {
	n.metrics.Full(uint32(id))
	n.config.Logger.Error("the shard's records fill their share of the memory: new keys and ids are refused",
		"shard", id, "share_bytes", maxRecordBytes(n.stores.Identity().Shards))
}

func timeStepError(id shard.ID, last, now limit.Time) error {
	return fmt.Errorf("shard %d's time stopped at %s and this machine's clock says %s: if the clock is right, start "+
		"once with --accept-time; a wrong one would let every window pass", id,
		time.UnixMicro(int64(last)).UTC().Format(time.RFC3339), time.UnixMicro(int64(now)).UTC().Format(time.RFC3339))
}

// awaitEpochs waits until every shard can decide.
func (n *Node) awaitEpochs(ctx context.Context) error {
	for n.Ready() != nil {
		select {
		case <-n.opened:
		case err := <-n.fatal:
			return err
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", n.Ready())
		}
	}
	return nil
}

// Ready returns nil when every shard can be served, else what is missing.
func (n *Node) Ready() error {
	if n.stopping.Load() {
		return errors.New("the node is stopping")
	}
	for id, a := range n.actors {
		if !a.Open() {
			return fmt.Errorf("shard %d has no open epoch", id)
		}
	}
	return nil
}

func (n *Node) serve() {
	owners := make([]cluster.Owner, len(n.actors))
	for i, a := range n.actors {
		owners[i] = a
	}
	handler := api.New(api.Config{
		Decider:        cluster.NewRouter(owners),
		Policies:       func() *policy.Set { return n.policies },
		Ready:          n.Ready,
		Observer:       n.metrics,
		Metrics:        n.scrape(),
		RequestTimeout: n.config.RequestTimeout,
	})
	n.server = api.NewServer(handler, n.config.Logger)
	n.serving.Go(func() {
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("serving the API: %w", err))
		}
	})
}

// scrape looks at what only a scrape asks for, then answers it.
func (n *Node) scrape() http.Handler {
	handler := n.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for id, g := range n.groups {
			g.View(func(s *shard.State) { n.metrics.Keys(uint32(id), s.Records()) })
		}
		handler.ServeHTTP(w, r)
	})
}

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

// Close finishes the requests under way and stops. When ctx ends first it stops anyway, and what is left is answered
// with its fate. It must not be called after Done yielded an ErrDisk.
func (n *Node) Close(ctx context.Context) error {
	n.stopping.Store(true)
	var errs []error
	if n.server != nil {
		if n.server.Shutdown(ctx) != nil { // out of patience: the actors below still give every request its fate
			errs = append(errs, n.server.Close())
		}
		n.serving.Wait()
	} else if n.listener != nil {
		errs = append(errs, n.listener.Close())
	}
	n.each(func(i int) { n.actors[i].Close(ctx) }, len(n.actors))
	n.each(func(i int) { n.groups[i].Shutdown() }, len(n.groups))
	if n.stores != nil {
		errs = append(errs, n.stores.Close())
	}
	return errors.Join(errs...)
}

// each does the same to all shards at once and waits.
func (n *Node) each(do func(i int), count int) {
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
