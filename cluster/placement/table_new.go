package placement

import (
	"slices"
	"strings"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// firstNumber is the number of every replica in the first table. Their names differ by the node and the shard.
const firstNumber = 1

// NewTable lays out the first table, with the founders as active nodes. Every group gets the largest odd number of
// voters that replicas and the founders allow. Voters and leads are spread evenly over nodes and zones. The system
// group's voters are SystemVoters, which exist already. There must be at least one founder, 1 to slot.Count shards, and
// one replica.
func NewTable(cluster string, founders []Node, shards uint32, replicas int) *Table {
	t := &Table{
		Cluster:    cluster,
		Shards:     shards,
		Slots:      slot.Even(shards),
		Replicas:   replicas,
		Nodes:      slices.Clone(founders),
		NextNumber: firstNumber + 1,
	}
	slices.SortFunc(t.Nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	names := make([]string, len(t.Nodes))
	for i := range t.Nodes {
		t.Nodes[i].State = NodeActive
		names[i] = t.Nodes[i].ID
	}
	for i := range int(shards) + 1 {
		t.Groups = append(t.Groups, Group{Shard: t.shardAt(i)})
	}
	p := newPlanner(t, Observed{})
	for _, node := range systemNodes(names, replicas) {
		p.found(t.Group(shard.System), node)
	}
	p.foundData(0, largestOdd(replicas, len(names)))
	for i := range t.Groups {
		t.Groups[i].foundedBy()
	}
	p.planLeads()
	return t
}

// SystemVoters names the first voters of the system group: the replicas of the first founders in the order of their
// ids, as many as replicas and the number of founders allow. The founders create them before there is a table.
func SystemVoters(founders []string, replicas int) []string {
	system := Group{Shard: shard.System, Founders: systemNodes(founders, replicas)}
	return system.firstVoters()
}

func systemNodes(founders []string, replicas int) []string {
	return slices.Sorted(slices.Values(founders))[:largestOdd(replicas, len(founders))]
}

// largestOdd returns the largest odd number not greater than a or b, but at least 1.
func largestOdd(a, b int) int { return max(1, (min(a, b)+1)/2*2-1) }

// found adds one of its first voters to a group.
func (p *planner) found(g *Group, node string) {
	g.Replicas = append(g.Replicas, Replica{Node: node, Number: g.number(), Role: Voter,
		Created: g.Shard == shard.System})
	p.load[node]++
}

// foundData gives the data shards from first on their first voters, placed so that no later plan has a reason to move
// one.
func (p *planner) foundData(first shard.ID, voters int) {
	isNew := func(g *Group) bool { return g.Shard >= first && g.Shard != shard.System }
	for i := range p.t.Groups {
		for g := &p.t.Groups[i]; isNew(g) && len(g.Replicas) < voters; {
			p.found(g, p.bestNodeFor(g))
		}
	}
	for {
		m, found := p.bestMove(isNew)
		if !found {
			return
		}
		m.group.Replicas[m.group.index(m.from, m.group.number())].Node = m.to
		p.load[m.from]--
		p.load[m.to]++
	}
}

// foundedBy records the first voters as founders.
func (g *Group) foundedBy() {
	slices.SortFunc(g.Replicas, func(a, b Replica) int { return strings.Compare(a.Node, b.Node) })
	for _, r := range g.Replicas {
		g.Founders = append(g.Founders, r.Node)
	}
}
