package node

import (
	"errors"
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// readiness judges whether this node can do its part. It holds no state; all methods may be called concurrently.
type readiness struct {
	node     string // id of this node
	view     *clusterView
	replicas *replicaSet
	tokens   *tokens
	peers    *peers
	stopping func() bool // whether this node stops
}

// check returns nil when this node can serve or forward every shard and its own replicas are open and nearly up to
// date; otherwise it says what is missing. A rolling restart waits for it: while a replica still starts, the next node
// to stop would take a shard's majority with it. A shard that has stopped because its replicas differ does not count:
// every node forwards to it as before, and restarting the nodes one by one is what helps.
func (r *readiness) check() error {
	if r.stopping() {
		return errors.New("the node is stopping")
	}
	t := r.view.newestTable()
	if !r.view.hasTable() || !r.peers.hasJoined() {
		return errors.New(r.view.noCluster())
	}
	if r.view.hasLeft() {
		return ErrRemoved
	}
	if r.view.revision() == nil {
		return errors.New("the node does not know the cluster's policies yet")
	}
	if r.view.sealer() == nil {
		return errors.New("the node does not know the cluster's secret yet")
	}
	if !r.tokens.guard.Set().Known {
		return errors.New("the node does not know yet which tokens are valid")
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if r.ownerOf(g.Shard) == "" {
			return fmt.Errorf("shard %s has no owner", g.Shard)
		}
		if err := r.holds(g); err != nil {
			return err
		}
	}
	return nil
}

// holds returns nil if this node's replica of a group, where it should have one, runs and is nearly up to date.
func (r *readiness) holds(g *placement.Group) error {
	for _, listed := range g.Replicas {
		if listed.Node != r.node || listed.Role != placement.Voter || !listed.Created || listed.Lost {
			continue
		}
		own := r.replicas.of(g.Shard)
		if own == nil || own.Number != listed.Number {
			return fmt.Errorf("the replica of shard %s is not open", g.Shard)
		}
		if behind := r.behind(own); behind > caughtUpEntries {
			return fmt.Errorf("the replica of shard %s is %d entries behind", g.Shard, behind)
		}
	}
	return nil
}

// behind is how many entries a replica of this node lacks of those that the shard's owner last reported as committed.
func (r *readiness) behind(own *replica) uint64 {
	applied := own.group.Status().AppliedIndex
	_, owner := ownerReport(r.peers.reports(), own.Shard)
	if owner == nil {
		return 0
	}
	return owner.Commit - min(owner.Commit, applied)
}

// ownerOf names the node that owns a shard, if this node knows one and it answers; "" otherwise.
func (r *readiness) ownerOf(id shard.ID) string {
	if _, open := r.replicas.owner(id); open {
		return r.node
	}
	if own := r.replicas.of(id); own != nil && own.lone { // no other node can own it
		return ""
	}
	node, _ := ownerReport(r.peers.answering(), id)
	return node
}
