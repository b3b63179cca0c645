package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-io/stint/shard"
)

// Node returns the node with that id, or nil if it is not listed. The result points into the table.
func (t *Table) Node(id string) *Node {
	at, found := slices.BinarySearchFunc(t.Nodes, id, func(n Node, id string) int { return strings.Compare(n.ID, id) })
	if !found {
		return nil
	}
	return &t.Nodes[at]
}

// Incarnation returns the incarnation of the listed node with that id; 0 for the first one, or if there is none.
func (t *Table) Incarnation(id string) uint64 {
	if n := t.Node(id); n != nil {
		return n.Incarnation
	}
	return 0
}

// Listed returns the nodes that belong to the cluster.
func (t *Table) Listed() (nodes []Node) {
	for _, n := range t.Nodes {
		if n.State != NodeRemoved {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Left reports whether a node has nothing to do in the cluster any more: it was removed, or is leaving and has no
// replica left.
func (t *Table) Left(node string) bool {
	n := t.Node(node)
	return n != nil && (n.State == NodeRemoved || n.State == NodeLeaving && !t.hasReplica(node))
}

// hasReplica reports whether any replica of the node is listed, whatever its role.
func (t *Table) hasReplica(node string) bool {
	return slices.ContainsFunc(t.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Node == node })
	})
}

// WantedShards returns how many shards are to share the slots.
func (t *Table) WantedShards() uint32 { return cmp.Or(t.Wanted, t.Shards) }

// Group returns the group of a shard, or nil if there is none. The result points into the table.
func (t *Table) Group(id shard.ID) *Group {
	at, found := slices.BinarySearchFunc(t.Groups, id, func(g Group, id shard.ID) int {
		return cmp.Compare(g.Shard, id)
	})
	if !found {
		return nil
	}
	return &t.Groups[at]
}

// Replica returns the replica of a shard with that node and number, or nil if it is not listed. The result points into
// the table.
func (t *Table) Replica(id shard.ID, node string, number uint64) *Replica {
	g := t.Group(id)
	if g == nil {
		return nil
	}
	if i := g.index(node, number); i >= 0 {
		return &g.Replicas[i]
	}
	return nil
}

// index returns the index of a replica in the group, or -1.
func (g *Group) index(node string, number uint64) int {
	return slices.IndexFunc(g.Replicas, func(r Replica) bool { return r.Node == node && r.Number == number })
}

// Voters returns the group's replicas with Role Voter.
func (g *Group) Voters() []Replica {
	var voters []Replica
	for _, r := range g.Replicas {
		if r.Role == Voter {
			voters = append(voters, r)
		}
	}
	return voters
}

// number is that of the replicas of the group's founders.
func (g *Group) number() uint64 { return max(g.Number, firstNumber) }

// firstVoters returns the names of the voters in the group's first Raft configuration.
func (g *Group) firstVoters() []string {
	names := make([]string, len(g.Founders))
	for i, node := range g.Founders {
		names[i] = Replica{Node: node, Number: g.number()}.Name(g.Shard)
	}
	return names
}
