package cluster

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// applied returns a clone in which change was made to the replica; nil if it is not listed, or change is not due.
func (t *Table) applied(id shard.ID, node string, number uint64, due func(*Replica) bool, change func(*Replica)) *Table {
	r := t.Replica(id, node, number)
	if r == nil || !due(r) {
		return nil
	}
	next := t.Clone()
	change(next.Replica(id, node, number))
	return next
}

// ApplyCreated returns a changed clone in which the replica is Created; nil if there is nothing to change.
func (t *Table) ApplyCreated(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return !r.Created }, func(r *Replica) { r.Created = true })
}

// ApplyLost returns a changed clone in which the replica is Lost; nil if there is nothing to change. It stays Lost.
func (t *Table) ApplyLost(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return !r.Lost }, func(r *Replica) { r.Lost = true })
}

// ApplyVoter returns a changed clone in which the learner is a voter; nil if there is nothing to change. Who is leaving
// stays so.
func (t *Table) ApplyVoter(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return r.Role == Learner }, func(r *Replica) { r.Role = Voter })
}

// ApplyGone returns a changed clone without the leaving replica; nil if there is nothing to change.
func (t *Table) ApplyGone(id shard.ID, node string, number uint64) *Table {
	r := t.Replica(id, node, number)
	if r == nil || r.Role != Leaving {
		return nil
	}
	next := t.Clone()
	g := next.Group(id)
	at := g.index(node, number)
	g.Replicas = slices.Delete(g.Replicas, at, at+1)
	return next
}

// ApplyNodeState returns a changed clone in which the node is in that state; nil if there is nothing to change, or if
// it must not be: a leaving node goes on to be removed, and a removed one does not come back.
func (t *Table) ApplyNodeState(node string, state NodeState) *Table {
	n := t.Node(node)
	if n == nil || n.State == state || n.State >= NodeLeaving && state < n.State {
		return nil
	}
	next := t.Clone()
	next.Node(node).State = state
	return next
}

// ApplySecret returns a changed clone that has that secret; nil if the table has one already, for it never changes.
func (t *Table) ApplySecret(s Secret) *Table {
	if len(t.Secret) > 0 {
		return nil
	}
	next := t.Clone()
	next.Secret = s
	return next
}
