package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// replica is one copy of a shard that runs here: its Raft member and its actor.
type replica struct {
	raftfsm.Replica
	lone  bool // the only one of its group
	group *raftfsm.Group
	actor *actor.Actor

	stuck atomic.Bool // in a transfer that nobody is making: to be opened anew (SEMANTICS R9)

	// The steward's.
	leadingSince time.Time // without an epoch; zero: it does not lead, or has one
	ownsSince    time.Time // since when it owns the shard, or was last to be handed to the node that should
	dischargedAt time.Time // when it was last looked what the shard owes others

	alignedEpoch uint64 // in which the table was read; the aligning task's
}

// name is what the group's members call it.
func (n *Node) name(r raftfsm.Replica) string { return r.Name(n.id) }

// replica finds the copy of a shard that runs here; nil when there is none.
func (n *Node) replica(id shard.ID) *replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.running[id]
}

// replicas lists what runs here.
func (n *Node) replicas() []*replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := make([]*replica, 0, len(n.running))
	for _, r := range n.running {
		all = append(all, r)
	}
	return all
}

// open starts a replica whose stores exist. Only the steward opens and closes, and who begins before it or ends after it:
// nobody else may, or a replica would be opened while it still runs.
func (n *Node) open(which raftfsm.Replica, lone bool) error {
	r := &replica{Replica: which, lone: lone}
	stream := n.port.Stream(which.Shard, n.name(which))
	var a atomic.Pointer[actor.Actor] // leadership may be won before there is an actor to tell
	group, err := raftfsm.OpenGroup(n.stores, raftfsm.GroupConfig{
		Replica: which,
		Lone:    lone,
		Stream:  stream,
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
		},
	})
	if err != nil {
		stream.Close() // the next attempt makes another of that name
		return diskError(err)
	}
	r.group = group
	r.actor = actor.Start(which.Shard, group, n.actorConfig(which.Shard, lone))
	a.Store(r.actor)
	n.mu.Lock()
	n.running[which.Shard] = r
	n.mu.Unlock()
	r.actor.Hint()
	return nil
}

// reopen starts a replica anew.
func (n *Node) reopen(ctx context.Context, r *replica, lone bool) error {
	n.closeReplica(ctx, r)
	return n.open(r.Replica, lone)
}

// closeReplica stops a replica; what it was asked gets its fate.
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

func (n *Node) actorConfig(id shard.ID, lone bool) actor.Config {
	config := actor.Config{
		Now:      n.config.World.Now,
		Policies: n.known.revision,
		MaxBytes: maxRecordBytes(uint32(n.shards()) + 1),
		Observer: actor.Observer{
			Batch:      func(requests, effects, bytes int) { n.metrics.Batch(uint32(id), requests, effects, bytes) },
			Commit:     func(took time.Duration) { n.metrics.Commit(uint32(id), took) },
			Epoch:      func(epoch uint64) { n.noteEpoch(id, epoch) },
			TimeStep:   func(last, now limit.Time) { n.fail(timeStepError(id, last, now)) },
			Frozen:     func(behind time.Duration) { n.noteFrozen(id, behind) },
			Full:       func() { n.noteFull(id) },
			ClockOff:   func(ahead time.Duration) { n.noteClockOff(ahead) },
			ClockWrong: func(ahead time.Duration) { n.noteClockWrong(id, ahead) },
			HandOver:   func(reason string) { n.handOverSoon(id, reason) },
		},
		AcceptStep: n.config.AcceptTime,
	}
	if id == shard.System {
		config.Policies = nil
	}
	if !lone {
		config.Reference = func() (time.Duration, bool) { return n.pulse.Offset(n.voterNodes(id)) }
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
	n.config.Logger.Error("the shard's records fill their share of the memory: new keys and ids are refused",
		"shard", id, "share_bytes", maxRecordBytes(uint32(n.shards())+1))
}

func (n *Node) noteClockOff(ahead time.Duration) {
	n.config.Logger.Warn("this machine's clock is off the other nodes' clocks: set it", "ahead", ahead)
}

// noteClockWrong stops the node if most voters' clocks are against its own. While some are not heard, one wrong clock
// makes the others look wrong.
func (n *Node) noteClockWrong(id shard.ID, ahead time.Duration) {
	voters, against := n.voterNodes(id), 0
	for _, voter := range voters {
		if off, ok := n.pulse.Offset([]string{voter}); ok && voter != n.id && off.Abs() > clockWrongMost {
			against++
		}
	}
	if against > len(voters)/2 {
		n.fail(clockWrongError(ahead))
	}
}

// clockWrongMost is how far a clock may be off another one that is taken for right (SEMANTICS R18).
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

// hintActors has every actor look at once whether there is something to do.
func (n *Node) hintActors() {
	for _, r := range n.replicas() {
		r.actor.Hint()
	}
}

// each does the same to all and waits.
func each[T any](all []T, do func(T)) {
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() { do(one) })
	}
	group.Wait()
}

// voterNodes names the nodes of a shard's voters, as the table says.
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

// local is this node's actor of a shard, and whether it owns the shard now.
func (n *Node) local(id shard.ID) (cluster.Owner, bool) {
	r := n.replica(id)
	if r == nil {
		return nil, false
	}
	return r.actor, r.actor.Open()
}

// leader is the node of a shard's Raft leader, as our own replica knows it.
func (n *Node) leader(id shard.ID) string {
	r := n.replica(id)
	if r == nil {
		return ""
	}
	return nodeOf(r.group.Leader())
}

// nodeOf takes the node's id out of a replica's name, node/shard/number: an id has no slash.
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
