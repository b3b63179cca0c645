package placement

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// Observed is the controller's observation of the cluster, the input of a plan.
type Observed struct {
	Members []gossip.Member          // from gossip
	Silent  map[string]time.Duration // how long a node has not answered; absent or 0 if it answers
	Reports map[string]Report        // the latest report of each node
	Grace   time.Duration            // a node that is silent for longer is replaced
	// Lingers names leaving nodes without replicas that are still letting their clients go, within the time for that.
	// They are not removed yet: with the removal, their connections with the other nodes end at once.
	Lingers map[string]bool
}

// leadPatience is how long a node may be silent and still be the preferred leader.
const leadPatience = 2 * time.Second

// learnersMax bounds how many replicas receive their state at the same time, in all groups together.
const learnersMax = 4

// Plan returns the next table and a description of each change, in one line of English each. It returns nil if there is
// nothing to do.
//
// Plan registers nodes, decides which replicas to add and which to remove, and which node should lead. It never records
// facts that only the nodes can vouch for: that stores were created or lost, that a learner votes, or that a replica is
// gone. A group changes one replica at a time, a new one joins before the old one leaves, unless that is lost, and none
// leaves unless a majority answers before and after. While the nodes do not change, the tables converge, because every
// further table has to spread the replicas better than the last.
func Plan(t *Table, seen Observed) (next *Table, steps []string) {
	p := newPlanner(t.Clone(), seen)
	p.planNodes()
	p.planReplicas()
	slotPlanner{p}.plan()
	p.planLeads()
	if len(p.steps) == 0 {
		return nil, nil
	}
	return p.t, p.steps
}

// planner changes its table step by step.
type planner struct {
	t     *Table // the next one, not handed on yet
	seen  Observed
	load  map[string]int // number of sound replicas on each node; follows every change of the table
	steps []string
	// unburdened holds the groups that this plan allowed to drop a voter although they were changing.
	unburdened map[shard.ID]bool
}

func newPlanner(t *Table, seen Observed) *planner {
	p := &planner{t: t, seen: seen, load: map[string]int{}, unburdened: map[shard.ID]bool{}}
	for i := range t.Groups {
		for _, r := range t.Groups[i].Replicas {
			if p.sound(r) {
				p.load[r.Node]++
			}
		}
	}
	return p
}

// step records a change.
func (p *planner) step(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

// groupName returns the name of a group for messages.
func groupName(g *Group) string {
	if g.Shard == shard.System {
		return "system shard"
	}
	return "shard " + g.Shard.String()
}

// dead reports whether a node has been silent for so long that it is replaced.
func (p *planner) dead(node string) bool { return p.seen.Silent[node] > p.seen.Grace }

// bad reports whether a replica is to be replaced.
func (p *planner) bad(r Replica) bool {
	return r.Lost || p.dead(r.Node) || p.t.Node(r.Node).State >= NodeLeaving
}

// sound reports whether the group keeps a replica.
func (p *planner) sound(r Replica) bool { return r.Role != Leaving && !p.bad(r) }

// answers reports whether a replica can acknowledge an entry now.
func (p *planner) answers(r Replica) bool { return r.Created && !r.Lost && p.seen.Silent[r.Node] == 0 }

// welcomes reports whether a node may be given a replica now.
func (p *planner) welcomes(n *Node) bool {
	report := p.seen.Reports[n.ID]
	return n.State == NodeActive && p.seen.Silent[n.ID] == 0 && report.Fit() && p.reads(n.ID)
}

// reads reports whether a node can read what the cluster writes, or is about to write.
func (p *planner) reads(node string) bool {
	return p.seen.Reports[node].Levels.Max >= p.t.Level //mutant:admits-a-node-that-cannot-read
}

// leader returns the node that leads a group according to the reports, or "".
func (p *planner) leader(id shard.ID) string {
	leader, newest := "", uint64(0)
	for i := range p.t.Nodes {
		node := p.t.Nodes[i].ID
		for _, r := range p.seen.Reports[node].Replicas {
			if r.Shard == id && r.Leading && (leader == "" || r.Epoch > newest) {
				leader, newest = node, r.Epoch
			}
		}
	}
	return leader
}
