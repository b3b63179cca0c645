package node

import (
	"errors"
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Ready returns nil when this node can serve or forward every shard and its own replicas are open and nearly up to date;
// otherwise it says what is missing. A rolling restart waits for it: while a replica still starts, the next node to stop
// would take a shard's majority with it. A shard that has stopped because its replicas differ does not count: every node
// forwards to it as before, and restarting the nodes one by one is what helps.
func (n *Node) Ready() error {
	if n.stopping.Load() {
		return errors.New("the node is stopping")
	}
	t := n.known.newest()
	if t.Table == nil || !n.hasJoined() {
		return errors.New("the node belongs to no cluster yet, or does not know its table")
	}
	if n.removed(n.id) {
		return ErrRemoved
	}
	if n.known.revision() == nil {
		return errors.New("the node does not know the cluster's policies yet")
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if n.ownerOf(g.Shard) == "" {
			return fmt.Errorf("shard %s has no owner", g.Shard)
		}
		if err := n.holds(g); err != nil {
			return err
		}
	}
	return nil
}

// holds returns nil if this node's replica of a group, where it should have one, runs and is nearly up to date.
func (n *Node) holds(g *placement.Group) error {
	for _, listed := range g.Replicas {
		if listed.Node != n.id || listed.Role != placement.Voter || !listed.Created || listed.Lost {
			continue
		}
		r := n.replica(g.Shard)
		if r == nil || r.Number != listed.Number {
			return fmt.Errorf("the replica of shard %s is not open", g.Shard)
		}
		if behind := n.behind(r); behind > caughtUpEntries {
			return fmt.Errorf("the replica of shard %s is %d entries behind", g.Shard, behind)
		}
	}
	return nil
}

// behind is how many entries a replica of this node lacks of those that the shard's owner last reported as committed.
func (n *Node) behind(r *replica) uint64 {
	applied := r.group.Status().AppliedIndex
	var commit uint64
	for _, report := range n.probe.Reports() {
		for _, other := range report.Replicas {
			if other.Shard == r.Shard && other.Open {
				commit = max(commit, other.Commit)
			}
		}
	}
	return commit - min(commit, applied)
}

// ownerOf names the node that owns a shard, if this node knows one and it answers; "" otherwise.
func (n *Node) ownerOf(id shard.ID) string {
	if _, open := n.local(id); open {
		return n.id
	}
	if r := n.replica(id); r != nil && r.lone { // no other node can own it
		return ""
	}
	for node, report := range n.probe.Reports() {
		if n.probe.Silent()[node] >= silentMost {
			continue
		}
		for _, r := range report.Replicas {
			if r.Shard == id && r.Open {
				return node
			}
		}
	}
	return ""
}
