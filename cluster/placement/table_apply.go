package placement

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// applied returns a clone with change applied to the replica, or nil if it is not listed, or if due returns false.
func (t *Table) applied(
	id shard.ID, node string, number uint64, due func(*Replica) bool, change func(*Replica),
) *Table {
	r := t.Replica(id, node, number)
	if r == nil || !due(r) {
		return nil
	}
	next := t.Clone()
	change(next.Replica(id, node, number))
	return next
}

// ApplyCreated returns a clone in which the replica is Created, or nil if there is nothing to change.
func (t *Table) ApplyCreated(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return !r.Created }, func(r *Replica) {
		r.Created = true
	})
}

// ApplyLost returns a clone in which the replica is Lost, or nil if there is nothing to change. A replica stays Lost.
func (t *Table) ApplyLost(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return !r.Lost }, func(r *Replica) { r.Lost = true })
}

// ApplyVoter returns a clone in which the learner is a voter, or nil if there is nothing to change. A leaving replica
// stays leaving.
func (t *Table) ApplyVoter(id shard.ID, node string, number uint64) *Table {
	return t.applied(id, node, number, func(r *Replica) bool { return r.Role == Learner }, func(r *Replica) {
		r.Role = Voter
	})
}

// ApplyGone returns a clone without the leaving replica, or nil if there is nothing to change.
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

// ApplyNodeState returns a clone in which the node has that state. It returns nil if there is nothing to change or the
// change is not allowed: a leaving node can only become removed, and only Plan admits a removed id again.
func (t *Table) ApplyNodeState(node string, state NodeState) *Table {
	n := t.Node(node)
	if n == nil || n.State == state || n.State >= NodeLeaving && state < n.State {
		return nil
	}
	next := t.Clone()
	n = next.Node(node)
	n.State, n.DrainedLife = state, ""
	return next
}

// ApplyDrain returns a clone in which the node drains until its process is no longer life, or with "" until
// ApplyNodeState. It returns nil if there is nothing to change or the node is leaving.
func (t *Table) ApplyDrain(node, life string) *Table {
	n := t.Node(node)
	if n == nil || n.State >= NodeLeaving || n.State == NodeDraining && n.DrainedLife == life {
		return nil
	}
	next := t.Clone()
	n = next.Node(node)
	n.State, n.DrainedLife = NodeDraining, life
	return next
}

// ApplyLevel returns a clone that admits only nodes that know that level, or nil if the table requires it already.
func (t *Table) ApplyLevel(level shard.Level) *Table {
	if t.Level >= level {
		return nil
	}
	next := t.Clone()
	next.Level = level
	return next
}

// ApplyWanted returns a clone in which that many shards are to share the slots.
func (t *Table) ApplyWanted(shards uint32) *Table {
	next := t.Clone()
	next.Wanted = shards
	next.Asked++ //mutant:late-number-of-shards-counts
	return next
}

// ApplyGeneration returns a clone in which a move has its generation, or nil if it is not listed without one.
func (t *Table) ApplyGeneration(m Move, generation uint64) *Table {
	at := slices.Index(t.Moves, m)
	if at < 0 || m.Generation != 0 {
		return nil
	}
	next := t.Clone()
	next.Moves[at].Generation = generation
	return next
}

// ApplySlot returns a clone in which the slot of a move is on the shard that owns it, From or To, and without the move
// if it is over. It returns nil if there is nothing to change, or no such move is listed.
func (t *Table) ApplySlot(m shard.Move, owner shard.ID, over bool) *Table {
	at := slices.IndexFunc(t.Moves, func(listed Move) bool { return listed.Move == m })
	if at < 0 || !over && t.Slots[m.Slot] == uint32(owner) {
		return nil
	}
	next := t.Clone()
	slots := *t.Slots
	slots[m.Slot] = uint32(owner)
	next.Slots = &slots
	if over {
		if next.Moves = slices.Delete(next.Moves, at, at+1); len(next.Moves) == 0 {
			next.Moves = nil
		}
	}
	return next
}
