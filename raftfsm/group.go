package raftfsm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// Group is one replica of a shard: its Raft member, its log and its state. All methods may be called concurrently,
// except Propose, which one goroutine calls.
type Group struct {
	name      string // Replica.Name: raft's id and address of this replica
	cfg       GroupConfig
	stores    *Stores
	guard     *guard
	fsm       *fsm
	raft      *raft.Raft
	running   atomic.Pointer[raft.Raft] // same as raft, for raft's main goroutine, which runs before NewRaft returns
	unsynced  unsyncedWrites
	transport *transport
	roster    roster

	transferring sync.Mutex // held during a leadership transfer
	transferred  time.Time  // when the newest one ended; zero: none yet; guarded by transferring

	proposals chan struct{} // one token for each request to raft: a proposal, a change of members, a transfer
	closing   atomic.Bool   // no new proposals
	closed    chan struct{} // raft has ended
	shutdown  sync.Once
	watching  sync.WaitGroup // goroutines that end with closed
}

// OpenGroup starts a replica that CreateGroup made. Its error has ErrLost in the chain when the replica's stores have
// lost something, or when the replica was never created, was destroyed, is suspect or was convicted.
func OpenGroup(stores *Stores, cfg GroupConfig) (*Group, error) {
	name := cfg.Replica.Name(stores.identity.Node)
	g := &Group{
		name:      name,
		cfg:       cfg,
		stores:    stores,
		guard:     &guard{fault: stores.fault, watchdog: stores.watchdog, group: name},
		proposals: make(chan struct{}, proposalsInFlight),
		closed:    make(chan struct{}),
	}
	g.fsm = &fsm{id: cfg.Replica.Shard, guard: g.guard, applied: cfg.Observer.Applied, diverged: cfg.Observer.Diverged,
		state: shard.NewState(cfg.Replica.Shard)}
	if !stores.use(cfg.Replica) {
		return nil, fmt.Errorf("opening %s: it is open already", name)
	}
	if err := stores.fault.contain(g.open); err != nil {
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

// open examines what raft will read, and starts raft last: a replica that is refused sends nothing and gives no vote.
func (g *Group) open() error {
	replica := g.cfg.Replica
	logger := newRaftLogger(g.stores.logger.With("shard", replica.Shard), g.stores.repeats)
	record, err := g.stores.record(replica)
	if err != nil {
		return err
	}
	if err := g.stores.suspicion.refuse(replica, g.cfg.Lone); err != nil {
		return err
	}
	log, err := openLogStore(g.stores.db, replica.logPrefix())
	if err != nil {
		return err
	}
	stable := &stableStore{file: g.stores.file, prefix: replica.stablePrefix()}
	snapshots, err := g.stores.openSnapshots(replica)
	if err != nil {
		return err
	}
	found, err := examine(log, stable, snapshots, record, &g.roster)
	if err != nil {
		return err
	}
	if n := len(votersIn(found.members)); g.cfg.Lone && n > 1 {
		return fmt.Errorf("it was to be opened as the only voter, and its log names %d: open it without Lone", n)
	}
	if err := g.trustAgain(); err != nil {
		return err
	}
	recent := &recentLog{LogStore: &guardedLog{
		logStore: log,
		guard:    g.guard,
		roster:   &g.roster,
		unsynced: &g.unsynced,
		leads:    g.leads,
		appended: g.cfg.Observer.Appended,
	}}
	if err := g.openTransport(logger); err != nil {
		return err
	}
	conf := raftConfig(g.name, g.electionTimeout(), logger)
	conf.TrailingLogs = g.cfg.trailing()
	member, err := raft.NewRaft(conf, g.fsm, recent,
		&guardedStable{stable, g.guard, &g.unsynced}, &guardedSnapshots{snapshots, g.guard, &g.roster, g.closing.Load},
		g.transport)
	if err != nil {
		return err
	}
	g.raft = member
	g.running.Store(member)
	return nil
}

// leads reports whether this replica leads. Raft's main goroutine calls it to learn whether it writes as the leader.
func (g *Group) leads() bool {
	member := g.running.Load()
	return member != nil && member.State() == raft.Leader
}

// trustAgain ends the suspicion against the only voter of a group: entries that existed only in the cache were never
// acknowledged, and they are on disk since the stores were opened. A Lone group may get more voters later.
func (g *Group) trustAgain() error {
	if !g.cfg.Lone {
		return nil
	}
	return g.stores.suspicion.clear(g.cfg.Replica)
}

func (g *Group) openTransport(logger raftLogger) error {
	if got := g.cfg.Stream.Addr().String(); got != g.name {
		return fmt.Errorf("its stream layer is %q's", got)
	}
	g.transport = newTransport(g.cfg.Stream, logger, g.guard.hung.Load) //mutant:hung-leader-not-silent
	g.transport.onOwnDisk, g.transport.voter = g.onOwnDisk, g.knownVoter
	g.transport.progress, g.transport.committed = g.progress, g.committed
	return nil
}

// knownVoter returns a voter of the newest configuration in this replica's log, or "" while raft does not run yet.
func (g *Group) knownVoter() raft.ServerID {
	member := g.running.Load()
	if member == nil {
		return ""
	}
	if voters := votersIn(member.GetConfiguration().Configuration()); len(voters) > 0 {
		return raft.ServerID(voters[0])
	}
	return ""
}

// progress returns how far the log is committed and how far it is written; 0 while raft does not run yet.
func (g *Group) progress() (committed, newest uint64) {
	member := g.running.Load()
	if member == nil {
		return 0, 0
	}
	return member.CommitIndex(), member.LastIndex()
}

// committed returns the index of the newest entry that this replica knows to be committed, or 0 if it is not in that
// term. It reads the term last, and terms only grow: so the leader of that term, and of no later one, says that the
// entry is committed.
func (g *Group) committed(term uint64) uint64 {
	member := g.running.Load()
	if member == nil {
		return 0
	}
	index := member.CommitIndex()
	if member.CurrentTerm() != term { //mutant:commit-of-another-leader
		return 0
	}
	return index
}

// onOwnDisk waits until this replica's own disk has all entries up to index. It returns false if that will never
// happen.
func (g *Group) onOwnDisk(index uint64) bool {
	g.unsynced.await(index)
	return g.guard.fault.cause() == nil
}

// watchLeadership passes raft's leadership changes on as hints. It drains the channel, so raft never blocks on it.
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

// Leading is a hint whether a proposal has a chance now. It never blocks. Only a committed EpochOpen proves leadership.
func (g *Group) Leading() bool {
	return g.raft.State() == raft.Leader && !g.closing.Load() && g.guard.fault.cause() == nil
}

// Leader returns the name of the leader's replica as this replica knows it, or "" if unknown. It is a hint, and cheap.
func (g *Group) Leader() string {
	_, leader := g.raft.LeaderWithID()
	return string(leader)
}

// View calls read while the committed state does not change. read must be short and must not keep references to the
// state.
func (g *Group) View(read func(*shard.State)) { g.fsm.view(read) }

// RecordBytes returns the memory of the records on this replica (shard.State.Bytes). It waits for nothing.
func (g *Group) RecordBytes() int { return int(g.fsm.records.Load()) }

// Picture returns a picture of the committed state if it has the entry at (epoch, seq); else false. The caller may
// write it out while entries are being installed; until then it holds memory. look is called with the state as it is
// pictured; it must not keep it.
func (g *Group) Picture(epoch, seq uint64, look func(*shard.State)) (*shard.Snapshot, bool) {
	return g.fsm.picture(epoch, seq, look)
}

// Status is a replica's position in its group.
type Status struct {
	Leading       bool   // Group.Leading: false also for a leader that may not propose
	CommitIndex   uint64 // as this replica knows it; a follower hears of it late
	AppliedIndex  uint64 // installed into the state
	SnapshotIndex uint64 // 0: none yet
}

// Status returns the replica's current status. Its numbers are read one after another, not atomically.
func (g *Group) Status() Status {
	snapshot := g.roster.snapshot() // raft reports it only as text, which is too expensive to ask for often
	return Status{
		Leading:       g.Leading(),
		CommitIndex:   g.raft.CommitIndex(),
		AppliedIndex:  max(g.fsm.index.Load(), snapshot),
		SnapshotIndex: snapshot,
	}
}

// Shutdown ends the replica and all its goroutines. New proposals are refused. Proposals under way get up to
// 2*heartbeatTimeout to end, because raft does not answer a proposal that was committed and not yet applied when it
// shuts down. Shutdown may be called again, and must not be called from OnLeadership, an Observer or
// StoresConfig.Fatal.
func (g *Group) Shutdown() {
	g.shutdown.Do(func() {
		g.closing.Store(true)
		g.drain(2 * heartbeatTimeout)
		g.transport.end()
		g.raft.Shutdown().Error()
		g.unsynced.writes.Wait()
		close(g.closed)
		g.watching.Wait()
		g.stores.release(g.cfg.Replica)
	})
}
