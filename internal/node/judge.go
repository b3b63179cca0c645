package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

const (
	// judgeEvery is how often a replica compares its sums with the others': as often as the others are asked for theirs.
	judgeEvery = 500 * time.Millisecond
	// dismissAfter is how long a replica whose records are wrong waits before it closes. By then the node has heard of others
	// with the same finding, as after a program fault, and a majority stays.
	dismissAfter = 3 * time.Second
	// evidenceFor is the longest time that the stores of a convicted replica are kept.
	evidenceFor = 7 * 24 * time.Hour
	// convictedAgain is the time within which two convictions on one node cause it to be drained.
	convictedAgain = 24 * time.Hour
)

// judge compares this replica's sums with the other voters' (R12), and closes it if its records are wrong. It reports whether
// the replica is gone.
func (n *Node) judge(ctx context.Context, r *replica) (gone bool) {
	if now := n.config.World.Now(); now.Sub(r.judgedAt).Abs() >= judgeEvery {
		r.judgedAt = now
		verdict, at := placement.Judge(n.testimonies(r))
		switch verdict {
		case placement.Convicted:
			n.diverge(r, fmt.Sprintf("at epoch %d, seq %d its records had the sum %016x, and those of a majority another", at.Epoch, at.Seq, at.Sum))
		case placement.Disputed:
			n.dispute(r, at)
		case placement.Agreed:
			n.settleDispute(r)
		}
	}
	return n.lookAtDiverged(ctx, r)
}

// testimonies returns the arguments of cluster.Judge: this replica's name, the voters, and their last reports.
func (n *Node) testimonies(r *replica) (self string, voters []string, said map[string]placement.Testimony) {
	self = n.name(r.Replica)
	t := n.known.newest()
	if t.Table == nil || t.Group(r.Shard) == nil {
		return self, nil, nil
	}
	voters, said = testify(t.Group(r.Shard), n.probe.Reports())
	r.group.View(func(s *shard.State) {
		said[self] = placement.Testimony{Epoch: s.Epoch(), Seq: s.Seq(), Sums: s.Sums()}
	})
	return self, voters, said
}

// testify lists the voters of a group and the reports of those that can testify. A lost replica no longer reports, but it
// still counts toward the majority until the group goes on without it.
func testify(g *placement.Group, reports map[string]placement.Report) (voters []string, said map[string]placement.Testimony) {
	said = make(map[string]placement.Testimony)
	for _, voter := range g.Voters() {
		name := voter.Name(g.Shard)
		voters = append(voters, name)
		told := replicaIn(reports[voter.Node], g.Shard, voter.Number)
		if told != nil && !told.Diverged && !voter.Lost {
			said[name] = placement.Testimony{Epoch: told.Epoch, Seq: told.Seq, Sums: told.Sums}
		}
	}
	return voters, said
}

// replicaIn finds one replica in a report; nil when it is not there.
func replicaIn(report placement.Report, id shard.ID, number uint64) *placement.ReplicaReport {
	i := slices.IndexFunc(report.Replicas, func(r placement.ReplicaReport) bool { return r.Shard == id && r.Number == number })
	if i < 0 {
		return nil
	}
	return &report.Replicas[i]
}

// diverge notes that a replica's records are not those that were installed. From here on it decides nothing.
func (n *Node) diverge(r *replica, why string) {
	if !r.diverged.CompareAndSwap(nil, &why) {
		return
	}
	err := &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3, Message: fmt.Sprintf("shard %s: the records in node %s's memory "+
		"are not what its log says; nothing was counted, ask another node", r.Shard, n.id)}
	if r.lone {
		err = &shard.Error{Code: shard.Unavailable, RetryAfter: routing.LongWait, Message: fmt.Sprintf("shard %s has stopped: its records "+
			"in memory are not what its log says, and this is its only replica; nothing was counted; stop the node, check its memory "+
			"and start it again: the records are rebuilt from the disk", r.Shard)}
	}
	r.stopped.Store(err)
	n.config.Logger.Error("a replica's records are not what its log says: it no longer decides", "replica", n.name(r.Replica), "why", why)
	n.kick()
}

// dispute stops the shard: its replicas differ, and nothing shows which of them are right.
func (n *Node) dispute(r *replica, at shard.SumAt) {
	err := &shard.Error{Code: shard.Unavailable, RetryAfter: routing.LongWait, Message: fmt.Sprintf("shard %s has stopped: its replicas "+
		"hold different records at epoch %d, seq %d, and no majority of them agrees; nothing was counted; an operator has to "+
		"choose (docs/operations.md, \"A shard has stopped\")", r.Shard, at.Epoch, at.Seq)}
	if r.stopped.CompareAndSwap(nil, err) {
		n.config.Logger.Error("a shard has stopped", "replica", n.name(r.Replica), "error", err)
	}
}

// stoppedShards counts this node's replicas that decide nothing.
func (n *Node) stoppedShards() (count int) {
	for _, r := range n.replicas() {
		if r.stopped.Load() != nil {
			count++
		}
	}
	return count
}

// settleDispute lets a shard go on once a majority of its replicas agrees.
func (n *Node) settleDispute(r *replica) {
	stopped := r.stopped.Load()
	// A replica may have diverged meanwhile, by its snapshot: then it has stopped for another reason.
	if stopped != nil && r.diverged.Load() == nil && r.stopped.CompareAndSwap(stopped, nil) {
		n.config.Logger.Info("a shard goes on: a majority of its replicas agrees", "replica", n.name(r.Replica))
	}
}

// lookAtDiverged handles a replica whose records are wrong: it hands over the group that the replica leads, and closes the
// replica for good when the others have a majority without it. Until then the replica goes on voting: its log is as good as
// the others'.
func (n *Node) lookAtDiverged(ctx context.Context, r *replica) (gone bool) {
	why, now := r.diverged.Load(), n.config.World.Now()
	if why == nil {
		return false
	}
	if r.divergedAt.IsZero() {
		r.divergedAt = now
	}
	if r.group.Leading() && n.heir(r) != "" {
		n.handOverSoon(r.Shard, "its records here are not what its log says")
	}
	if now.Sub(r.divergedAt) < dismissAfter {
		return false
	}
	if err := n.canDoWithout(r); err != nil {
		if n.throttle.due("dismissing "+n.name(r.Replica), now) {
			n.config.Logger.Error("a replica whose records are wrong cannot be replaced now", "replica", n.name(r.Replica), "error", err)
		}
		return false
	}
	if err := n.dismiss(ctx, r, *why); err != nil {
		n.noteActed(r.Replica, err)
	}
	return true
}

// canDoWithout says why a group would have no sound majority without one of its replicas; nil: it would have one.
func (n *Node) canDoWithout(r *replica) error {
	members, _, err := r.group.Members()
	if err != nil {
		return err
	}
	voters, sound := 0, 0
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if m.Name != n.name(r.Replica) && n.sound(r.Shard, m.Name) {
			sound++
		}
	}
	switch {
	case r.lone:
		return errors.New("it is the only one: stop the node, check its memory and start it again")
	case sound <= voters/2:
		return fmt.Errorf("of %d voters only %d others answer and are sound: start the nodes that are missing", voters, sound)
	}
	return nil
}

// sound reports whether a member of a group, by its name, answers and could decide.
func (n *Node) sound(id shard.ID, name string) bool {
	told := n.told(id, name)
	return told != nil && told.Stopped == "" && n.ready(nodeOf(name))
}

// dismiss closes a replica for good: its epoch ends, another voter takes over what it leads, and its stores are kept as they
// are. The table will replace it.
func (n *Node) dismiss(ctx context.Context, r *replica, why string) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	r.actor.Close(now) // nothing is decided from here on: queued requests are forwarded
	c := raftfsm.Conviction{Why: why, At: n.config.World.Now()}
	err := n.stores.Convict(r.Replica, c)
	if r.group.Leading() {
		if err := n.transfer(r, n.heir(r)); err != nil {
			n.config.Logger.Warn("a shard could not be handed over before its replica is dismissed", "shard", r.Shard, "error", err)
		}
	}
	n.closeReplica(now, r)
	n.mu.Lock()
	n.convicted[r.Replica] = c
	n.mu.Unlock()
	n.config.Logger.Error("a replica was convicted: it is closed for good, kept on the disk for a week at most, and will be replaced under "+
		"another number; check this machine's memory", "replica", n.name(r.Replica), "why", why)
	n.kick()
	return diskError(err)
}

// convictions returns the recent convictions of this node's replicas.
func (n *Node) convictions(within time.Duration) map[raftfsm.Replica]raftfsm.Conviction {
	n.mu.RLock()
	defer n.mu.RUnlock()
	late, now := make(map[raftfsm.Replica]raftfsm.Conviction), n.config.World.Now()
	for r, c := range n.convicted {
		if now.Sub(c.At).Abs() < within {
			late[r] = c
		}
	}
	return late
}

// isEvidence reports whether the stores of a convicted replica are worth keeping for an inspection. Bad memory can convict
// one replica after another: the newest of each shard is enough, and none is worth a full disk. A time far in the future was
// written by a clock that was wrong. The caller holds n.mu.
func (n *Node) isEvidence(r raftfsm.Replica, c raftfsm.Conviction, lowDisk bool) bool {
	if lowDisk || n.config.World.Now().Sub(c.At).Abs() >= evidenceFor {
		return false
	}
	for other := range n.convicted {
		if other.Shard == r.Shard && other.Number > r.Number {
			return false
		}
	}
	return true
}

// drainIfAgain changes a table in which a replica of this node is marked as lost. If that is the second replica convicted
// within a day, the node must not lead until an operator has looked at it.
func (n *Node) drainIfAgain(t *placement.Table, lost raftfsm.Replica) *placement.Table {
	late := n.convictions(convictedAgain)
	if _, ok := late[lost]; !ok || len(late) < 2 {
		return t
	}
	listed := t.Node(n.id)
	if listed == nil || listed.State != placement.NodeActive {
		return t
	}
	n.config.Logger.Error("this node is drained: several of its replicas were convicted within a day; check its memory, or replace the machine")
	return t.ApplyNodeState(n.id, placement.NodeDraining)
}

// problems lists what an operator should know about this node, beyond what the table and its replicas say.
func (n *Node) problems() (problems []string) {
	for r, c := range n.convictions(convictedAgain) {
		problems = append(problems, fmt.Sprintf("node %s: its replica of shard %s was convicted at %s and is replaced: %s; check the "+
			"machine's memory", n.id, r.Shard, c.At.UTC().Format(time.RFC3339), c.Why))
	}
	t := n.known.newest()
	if len(problems) > 1 && t.Table != nil && t.Node(n.id) != nil && t.Node(n.id).State == placement.NodeDraining {
		problems = append(problems, fmt.Sprintf("node %s is drained, since several of its replicas were convicted within a day; when its "+
			"memory is known to be good, stint drain %s --off lets it lead again", n.id, n.id))
	}
	problems = append(problems, n.certificateProblems()...)
	slices.Sort(problems)
	return problems
}
