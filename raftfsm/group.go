package raftfsm

import (
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// Timing. A follower whose heartbeats wait behind a slow fsync must not start an election, so heartbeatTimeout is far
// above a disk's bad moments; after the loss of a leader both survivors must have missed it before one is elected, so
// that service is back after about five of them. Election time-out and leader lease are the same. A lone voter waits for
// nobody and elects itself at once (GroupConfig.Lone).
const (
	heartbeatTimeout     = 650 * time.Millisecond
	loneHeartbeatTimeout = 50 * time.Millisecond
	commitTimeout        = 250 * time.Millisecond // only delays what followers of an idle shard know
)

// The log. Followers that lag less than trailingEntries catch up from it; fewer would run into hashicorp/raft issue 697.
const (
	trailingEntries = 4096
	cachedEntries   = 64
)

// Observer is told what happens in a group. Its functions must not block; nil ones are not called.
type Observer struct {
	// Appended: a batch of log entries was written and fsynced.
	Appended func(took time.Duration, entries int)
	// Applied: an entry was installed into the shard's state, or dropped by its fence (Outcome.Dropped).
	Applied func(shard.Outcome)
}

// GroupConfig is what OpenGroup needs to know.
type GroupConfig struct {
	Replica Replica // created before by CreateGroup
	// Lone says that the replica is, by the cluster's table, the group's only voter: it waits for nobody and elects
	// itself at once. It is refused when the log says otherwise, and is to be opened anew without before it gets a second
	// voter.
	Lone bool
	// Stream reaches the other members; nil for a node alone. Its Addr must be the replica's name. The group closes it.
	Stream StreamLayer
	// OnLeadership is called by one goroutine after this replica may have gained or lost the leadership. A hint: ask
	// Leading. It may be called too often, and two changes may come as one. nil: nobody asks.
	OnLeadership func()
	Observer     Observer
}

// Group is one replica of a shard: its Raft member, its log and its state. All methods may be called concurrently,
// Propose by one goroutine.
type Group struct {
	name      string
	cfg       GroupConfig
	stores    *Stores
	guard     *guard
	fsm       *fsm
	raft      *raft.Raft
	running   atomic.Pointer[raft.Raft] // raft, for its own main goroutine, which runs before NewRaft returns
	ahead     ahead
	transport *transport
	roster    roster
	transfers transfers

	proposals chan struct{} // one token for each proposal under way
	closing   atomic.Bool   // no new proposals
	closed    chan struct{} // raft has ended
	shutdown  sync.Once
	watching  sync.WaitGroup
}

// OpenGroup starts a replica that CreateGroup made. It fails with ErrLost in its chain when the replica's stores do
// not hold what they held.
func OpenGroup(stores *Stores, cfg GroupConfig) (*Group, error) {
	name := cfg.Replica.Name(stores.identity.Node)
	g := &Group{
		name:      name,
		cfg:       cfg,
		stores:    stores,
		guard:     &guard{poison: stores.poison, watchdog: stores.watchdog, group: name},
		proposals: make(chan struct{}, proposalsInFlight),
		closed:    make(chan struct{}),
	}
	g.fsm = &fsm{id: cfg.Replica.Shard, guard: g.guard, applied: cfg.Observer.Applied,
		state: shard.NewState(cfg.Replica.Shard)}
	if !stores.use(cfg.Replica) {
		return nil, fmt.Errorf("opening %s: it is open already", name)
	}
	if err := stores.poison.contain(g.open); err != nil {
		if g.transport != nil {
			g.transport.Close()
		}
		stores.release(cfg.Replica)
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	g.watching.Go(g.watchLeadership)
	g.watching.Go(func() { every(time.Second, g.closed, g.snapshotWhenDue) })
	return g, nil
}

func (g *Group) open() error {
	replica, logger := g.cfg.Replica, raftLogger{g.stores.logger.With("shard", g.cfg.Replica.Shard), &g.stores.repeats}
	record, err := g.stores.record(replica)
	if err != nil {
		return err
	}
	if !g.cfg.Lone && g.stores.suspicion.names(replica) {
		return errSuspect
	}
	log, err := openLogStore(g.stores.db, replica.logPrefix())
	if err != nil {
		return err
	}
	stable := &stableStore{file: g.stores.file, prefix: replica.stablePrefix()}
	snapshotsDir := filepath.Join(g.stores.dir, snapshotsName, replica.stablePrefix())
	snapshots, err := openSnapshots(snapshotsDir, logger)
	if err != nil {
		return err
	}
	found, err := examine(log, stable, snapshots, record, &g.roster)
	if err != nil {
		return err
	}
	if n := found.voters(); g.cfg.Lone && n > 1 {
		return fmt.Errorf("it was to be opened as the only voter, and its log names %d: open it without Lone", n)
	}
	if err := g.trustAgain(); err != nil {
		return err
	}
	cached, err := raft.NewLogCache(cachedEntries,
		&guardedLog{logStore: log, guard: g.guard, roster: &g.roster, ahead: &g.ahead, leads: g.leads, appended: g.cfg.Observer.Appended})
	if err != nil {
		return err
	}
	if err := g.openTransport(logger); err != nil {
		return err
	}
	member, err := raft.NewRaft(raftConfig(g.name, g.electionTimeout(), logger), g.fsm, cached,
		&guardedStable{stable, g.guard, &g.ahead}, &guardedSnapshots{snapshots, snapshotsDir, g.guard, &g.roster, g.closing.Load}, g.transport)
	if err != nil {
		return err
	}
	g.raft = member
	g.running.Store(member)
	return nil
}

// leads tells raft's main goroutine, as long as it asks for itself, whether it writes as the leader.
func (g *Group) leads() bool {
	member := g.running.Load()
	return member != nil && member.State() == raft.Leader
}

// trustAgain ends the suspicion against the only voter of a group: what stood in the cache only was answered to nobody,
// and is on the disk since the stores were opened. It may grow again.
func (g *Group) trustAgain() error {
	if !g.cfg.Lone {
		return nil
	}
	return g.stores.suspicion.clear(g.cfg.Replica)
}

func (g *Group) openTransport(logger raftLogger) error {
	layer := g.cfg.Stream
	if layer == nil {
		layer = newLonely(g.name)
	}
	if got := layer.Addr().String(); got != g.name {
		return fmt.Errorf("its stream layer is %q's", got)
	}
	g.transport = newTransport(layer, logger, g.guard.hung.Load)
	g.transport.onOwnDisk = g.onOwnDisk
	return nil
}

// onOwnDisk waits until this replica's own disk has all entries up to an index. False: it never will.
func (g *Group) onOwnDisk(index uint64) bool {
	g.ahead.await(index)
	return g.guard.poison.cause() == nil
}

// electionTimeout is also the group's heartbeat time-out and its leader lease.
func (g *Group) electionTimeout() time.Duration {
	if g.cfg.Lone {
		return loneHeartbeatTimeout
	}
	return heartbeatTimeout
}

func raftConfig(name string, timeout time.Duration, logger raftLogger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(name)
	c.Logger = logger
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = timeout, timeout, timeout
	c.CommitTimeout = commitTimeout
	c.BatchApplyCh = false // a buffered proposal could enter the log after its enqueue time-out was reported
	c.ShutdownOnRemove = false
	c.SnapshotThreshold = math.MaxUint64 // we say when (snapshotWhenDue)
	c.TrailingLogs = trailingEntries
	c.NoLegacyTelemetry = true
	return c
}

// watchLeadership passes raft's edges on as hints. It drains the channel, so raft never waits for us.
func (g *Group) watchLeadership() {
	for {
		select {
		case <-g.raft.LeaderCh():
			if g.cfg.OnLeadership != nil {
				g.cfg.OnLeadership()
			}
		case <-g.closed:
			return
		}
	}
}

// snapshotWhenDue writes a snapshot when replaying the log would take longer than restoring one. It fails only while
// raft shuts down, or by setting the latch. One group of the node writes at a time: shards that are used alike come due
// together, and the others are asked again soon.
func (g *Group) snapshotWhenDue() {
	if !g.fsm.snapshotDue() || !g.stores.snapshotting.TryLock() {
		return
	}
	defer g.stores.snapshotting.Unlock()
	g.raft.Snapshot().Error()
}

// Leading is a hint whether a proposal has a chance now. It never blocks. The proof of leadership is a committed
// EpochOpen and nothing less.
func (g *Group) Leading() bool {
	return g.raft.State() == raft.Leader && !g.closing.Load() && g.guard.poison.cause() == nil
}

// Leader is the name of the leader's replica, as this one knows it; "" unknown. A hint, and cheap.
func (g *Group) Leader() string {
	_, leader := g.raft.LeaderWithID()
	return string(leader)
}

// View runs read while the committed state stands still. read must be short and must not keep what it saw.
func (g *Group) View(read func(*shard.State)) { g.fsm.view(read) }

// Status is a replica's place in its group, for people and metrics.
type Status struct {
	Replica       Replica
	Leading       bool
	Leader        string // name of the leader's replica; "" unknown
	Term          uint64
	LastIndex     uint64 // of the log
	CommitIndex   uint64
	AppliedIndex  uint64 // installed into the state
	SnapshotIndex uint64 // 0: none yet
}

// Status tells where the replica stands. Its numbers are read one after the other.
func (g *Group) Status() Status {
	snapshot := g.roster.snapshot() // raft tells it in words only, which costs too much to be asked often
	return Status{
		Replica:       g.cfg.Replica,
		Leading:       g.Leading(),
		Leader:        g.Leader(),
		Term:          g.raft.CurrentTerm(),
		LastIndex:     g.raft.LastIndex(),
		CommitIndex:   g.raft.CommitIndex(),
		AppliedIndex:  max(g.fsm.index.Load(), snapshot),
		SnapshotIndex: snapshot,
	}
}

// Snapshot writes a snapshot now and shortens the log. It returns raft.ErrNothingNewToSnapshot's text when the shard
// never saw an entry.
func (g *Group) Snapshot() error {
	if err := g.raft.Snapshot().Error(); err != nil {
		return fmt.Errorf("%s: snapshot: %w", g.name, err)
	}
	return nil
}

// Shutdown ends the replica and all its goroutines. New proposals are refused; those under way get up to two election
// time-outs to end, because raft forgets to answer a proposal that was committed and not yet applied. It may be called
// again, and must not be called from OnLeadership, an Observer or StoresConfig.Fatal.
func (g *Group) Shutdown() {
	g.shutdown.Do(func() {
		g.closing.Store(true)
		g.drain(2 * heartbeatTimeout)
		g.raft.Shutdown().Error()
		g.ahead.writes.Wait()
		close(g.closed)
		g.watching.Wait()
		g.stores.release(g.cfg.Replica)
	})
}
