package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// replica is one copy of a shard that runs here: its Raft member and its actor.
type replica struct {
	raftfsm.Replica
	lone  bool // it is the only one of its group
	group *raftfsm.Group
	actor *actor.Actor

	stuck atomic.Bool // in a transfer that nobody is making: to be reopened (R9)

	diverged atomic.Pointer[string]      // why its records are not those that were installed; nil: none known
	stopped  atomic.Pointer[shard.Error] // why it decides nothing; nil: it decides

	// The reconciler's.
	judgedAt     time.Time // when its sums were last compared with the others'
	divergedAt   time.Time // when the reconciler saw that its records are wrong
	leadingSince time.Time // since when it leads without an epoch; zero: it does not lead, or has one
	ownsSince    time.Time // since when it owns the shard, or last tried to hand it to the wanted node

	alignedEpoch uint64 // epoch in which the table was read; the aligning task's
}

// name is the replica's name within its group.
func (n *Node) name(r raftfsm.Replica) string { return r.Name(n.id) }

// replica returns the copy of a shard that runs here; nil when there is none.
func (n *Node) replica(id shard.ID) *replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.running[id]
}

// replicas lists the replicas that run here.
func (n *Node) replicas() []*replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := make([]*replica, 0, len(n.running))
	for _, r := range n.running {
		all = append(all, r)
	}
	return all
}

// open starts a replica whose stores exist. Only the reconciler opens and closes replicas, as do the start before it and the
// stop after it: otherwise a replica could be opened while it still runs.
func (n *Node) open(which raftfsm.Replica, lone bool) error {
	r := &replica{Replica: which, lone: lone}
	stream := n.port.Stream(which.Shard, n.name(which))
	var a atomic.Pointer[actor.Actor] // leadership may be won before there is an actor to tell
	group, err := raftfsm.OpenGroup(n.stores, raftfsm.GroupConfig{
		Replica: which,
		Lone:    lone,
		Stream:  stream,

		SnapshotEvery: n.config.World.SnapshotEvery,
		OnLeadership: func() {
			if a := a.Load(); a != nil {
				a.Hint()
			}
			n.router.Wake()
			n.kick()
		},
		Observer: raftfsm.Observer{
			Appended: n.metrics.Append,
			Applied:  func(o shard.Outcome) { n.noteApplied(which.Shard, o) },
			Diverged: func(err error) { n.diverge(r, err.Error()) },
		},
	})
	if err != nil {
		stream.Close() // the next attempt creates another one of that name
		return diskError(err)
	}
	r.group = group
	r.actor = actor.Start(which.Shard, group, n.actorConfig(r))
	a.Store(r.actor)
	n.mu.Lock()
	n.running[which.Shard] = r
	n.mu.Unlock()
	r.actor.Hint()
	return nil
}

// reopen closes a replica and starts it again.
func (n *Node) reopen(ctx context.Context, r *replica, lone bool) error {
	n.closeReplica(ctx, r)
	return n.open(r.Replica, lone)
}

// closeReplica stops a replica; its pending requests get their fate.
func (n *Node) closeReplica(ctx context.Context, r *replica) {
	n.mu.Lock()
	delete(n.running, r.Shard)
	n.mu.Unlock()
	r.actor.Close(ctx)
	r.group.Shutdown()
}

func (n *Node) noteApplied(id shard.ID, o shard.Outcome) {
	if o.Dropped != shard.NotDropped {
		n.metrics.Drop(uint32(id), o.Dropped.String())
	}
	if id == shard.System {
		n.kick()
	}
}

func (n *Node) actorConfig(r *replica) actor.Config {
	id := r.Shard
	config := actor.Config{
		Now:       n.config.World.Now,
		Suspended: n.config.World.Slept,
		Policies:  n.known.revision,
		MaxBytes:  maxRecordBytes(uint32(n.shards()) + 1),
		Level:     n.level,
		Stopped:   r.stopped.Load,
		IdleSum:   n.config.World.IdleSum,
		Observer: actor.Observer{
			Batch:      func(requests, effects, bytes int) { n.metrics.Batch(uint32(id), requests, effects, bytes) },
			Commit:     func(took time.Duration) { n.metrics.Commit(uint32(id), took) },
			Epoch:      func(epoch uint64) { n.noteEpoch(id, epoch) },
			TimeStep:   func(last, now limit.Time) { n.fail(timeStepError(id, last, now)) },
			Frozen:     func(behind time.Duration) { n.noteFrozen(id, behind) },
			Full:       func() { n.noteFull(id) },
			Fault:      func(met *shard.Error) { n.noteFault(id, met) },
			Unreadable: func(version uint64, err error) { n.noteUnreadable(id, version, err) },
			ClockOff:   func(ahead time.Duration) { n.noteClockOff(ahead) },
			ClockSet:   func(ahead time.Duration) { n.noteClockSet(id, ahead) },
			ClockWrong: func(ahead time.Duration) { n.noteClockWrong(id, ahead) },
			HandOver:   func(reason string) { n.handOverSoon(id, reason) },
		},
		AcceptStep: n.config.AcceptTime,
	}
	if id == shard.System {
		config.Policies = nil
	}
	if !r.lone {
		config.Reference = func() (time.Duration, bool) { return n.probe.Offset(n.voterNodes(id)) }
	}
	return config
}

func (n *Node) noteEpoch(id shard.ID, epoch uint64) {
	n.metrics.Epoch(uint32(id), epoch)
	if epoch > 0 {
		n.gossip.AnnounceOwner(id, epoch)
	}
	n.router.Wake()
	n.kick()
}

func (n *Node) noteFrozen(id shard.ID, behind time.Duration) {
	n.metrics.Frozen(uint32(id))
	n.config.Logger.Error("shard time stands still: this machine's clock is behind what it was; set the clock",
		"shard", id, "behind", behind)
}

func (n *Node) noteFull(id shard.ID) {
	n.metrics.Full(uint32(id))
	n.config.Logger.Error("the shard's records fill their share of the memory: new keys, ids and holds are refused",
		"shard", id, "share_bytes", maxRecordBytes(uint32(n.shards())+1))
}

func (n *Node) noteFault(id shard.ID, met *shard.Error) {
	n.config.Logger.Error("a defect of stint met a request, which alone failed: report it with this text",
		"shard", id, "error", met)
}

func (n *Node) noteUnreadable(id shard.ID, version uint64, err error) {
	n.config.Logger.Error("the policies that the shard has adopted cannot be read: run a newer version",
		"shard", id, "version", version, "error", err)
}

func (n *Node) noteClockOff(ahead time.Duration) {
	n.config.Logger.Warn("this machine's clock is off the other nodes' clocks: set it", "ahead", ahead)
}

func (n *Node) noteClockSet(id shard.ID, ahead time.Duration) {
	n.config.Logger.Warn("this machine's clock was set while the node ran; windows pass by the time that has gone by, and the "+
		"new time is taken over slowly, or when the node is started again", "shard", id, "ahead", ahead)
}

// noteClockWrong stops the node if most voters' clocks disagree with its own. A majority is needed because, while some are
// not heard, one wrong clock makes the others look wrong.
func (n *Node) noteClockWrong(id shard.ID, ahead time.Duration) {
	voters, against := n.voterNodes(id), 0
	for _, voter := range voters {
		if off, ok := n.probe.Offset([]string{voter}); ok && voter != n.id && off.Abs() > clockWrongMost {
			against++
		}
	}
	if against > len(voters)/2 {
		n.fail(clockWrongError(ahead))
	}
}

// clockWrongMost is how far a clock may be off another one that is taken for right (R18).
const clockWrongMost = 10 * time.Second

func clockWrongError(ahead time.Duration) error {
	return fmt.Errorf("this machine's clock is %v ahead of the other nodes' clocks (behind, if negative): "+
		"set the clock and start again", ahead)
}

func timeStepError(id shard.ID, last, now limit.Time) error {
	return fmt.Errorf("shard %s's time stopped at %s and this machine's clock says %s: if the clock is right, start "+
		"once with --accept-time; a wrong one would let every window pass", id,
		time.UnixMicro(int64(last)).UTC().Format(time.RFC3339), time.UnixMicro(int64(now)).UTC().Format(time.RFC3339))
}

// hintActors makes every actor check at once whether there is something to do.
func (n *Node) hintActors() {
	for _, r := range n.replicas() {
		r.actor.Hint()
	}
}

// each calls do for every element concurrently, and waits.
func each[T any](all []T, do func(T)) {
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() { do(one) })
	}
	group.Wait()
}

// voterNodes names the nodes of a shard's voters, by the table.
func (n *Node) voterNodes(id shard.ID) []string {
	t := n.known.newest()
	if t.Table == nil {
		return n.foundingNodes(id)
	}
	g := t.Group(id)
	if g == nil {
		return nil
	}
	var nodes []string
	for _, voter := range g.Voters() {
		nodes = append(nodes, voter.Node)
	}
	return nodes
}

// shards is the number of data shards; 0 while no table is known.
func (n *Node) shards() int {
	if t := n.known.newest(); t.Table != nil {
		return int(t.Shards)
	}
	return 0
}

// local returns this node's actor of a shard, and whether it owns the shard now.
func (n *Node) local(id shard.ID) (routing.Owner, bool) {
	r := n.replica(id)
	if r == nil {
		return nil, false
	}
	return r.actor, r.actor.Open()
}

// leader names the node of a shard's Raft leader, as this node's own replica knows it.
func (n *Node) leader(id shard.ID) string {
	r := n.replica(id)
	if r == nil {
		return ""
	}
	return nodeOf(r.group.Leader())
}

// nodeOf extracts the node's id from a replica's name, node/shard/number: an id has no slash.
func nodeOf(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return ""
}

type ownerAnnouncer interface {
	AnnounceOwner(id shard.ID, epoch uint64)
}
