package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-io/stint/shard"
)

// Name returns the replica's name in its group, node/shard/number: its Raft id and its address.
func (r Replica) Name(id shard.ID) string { return fmt.Sprintf("%s/%d/%d", r.Node, id, r.Number) }

// ParseName reads a replica's name, node/shard/number, and returns the replica without its role, and its shard. A
// node's id may contain slashes, so the name is read from its end.
func ParseName(name string) (r Replica, id shard.ID, err error) {
	front, number, _ := cutLast(name)
	node, place, found := cutLast(front)
	id64, err := strconv.ParseUint(place, 10, 32)
	n, e := strconv.ParseUint(number, 10, 64)
	if err != nil || e != nil || !found || node == "" {
		return Replica{}, 0, fmt.Errorf("cluster: %q is not a replica's name (node/shard/number)", name)
	}
	return Replica{Node: node, Number: n}, shard.ID(id64), nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

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

// Clone returns a copy that shares nothing with t but the map of slots, which is never changed.
func (t *Table) Clone() *Table {
	c := *t
	c.Moves = slices.Clone(t.Moves)
	c.Nodes = slices.Clone(t.Nodes)
	c.Groups = slices.Clone(t.Groups)
	for i := range c.Groups {
		g := &c.Groups[i]
		g.Founders, g.Replicas = slices.Clone(g.Founders), slices.Clone(g.Replicas)
	}
	return &c
}

// String implements fmt.Stringer.
func (s NodeState) String() string {
	switch s {
	case NodeActive:
		return "active"
	case NodeDraining:
		return "draining"
	case NodeLeaving:
		return "leaving"
	case NodeRemoved:
		return "removed"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// String implements fmt.Stringer.
func (r Role) String() string {
	switch r {
	case Learner:
		return "learner"
	case Voter:
		return "voter"
	case Leaving:
		return "leaving"
	}
	return fmt.Sprintf("role %d", uint8(r))
}
