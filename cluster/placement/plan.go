package placement

import (
	"fmt"
	"slices"
	"strings"
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
	t     *Table
	seen  Observed
	load  map[string]int // number of sound replicas on each node
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

// planNodes registers nodes that announced themselves and have answered, updates registered nodes from their
// announcements, and removes leaving nodes that have no replica left. The id of a removed node is free for one with a
// new disk.
func (p *planner) planNodes() {
	for _, m := range p.seen.Members {
		if m.Node == "" || m.Cluster != p.t.Cluster || m.State != gossip.MemberAlive {
			continue
		}
		// Gossip repeats anything that a holder of its key sends. A report came through the peer port, with a
		// certificate.
		report, answered := p.seen.Reports[m.Node]
		answered = answered && p.reads(m.Node)
		switch n := p.t.Node(m.Node); {
		case n == nil && answered:
			p.register(m)
		case n == nil:
		case n.State != NodeRemoved && p.answersAt(m):
			p.renew(n, m)
			p.undrain(n, report.Life)
		case n.State == NodeRemoved && answered && report.Fresh: //mutant:removed-disk-comes-back
			p.readmit(n, m)
		}
	}
	for i := range p.t.Nodes {
		//mutant:leaving-node-loses-its-clients
		if n := &p.t.Nodes[i]; p.t.Left(n.ID) && n.State == NodeLeaving && !p.seen.Lingers[n.ID] {
			n.State = NodeRemoved
			p.step("node %s has no replica left and is removed", n.ID)
		}
	}
}

// answersAt reports whether the announced process is the one that answers as its node. Gossip may hear a second process
// under an id; the table keeps the first one as long as it answers.
func (p *planner) answersAt(m gossip.Member) bool {
	report, answers := p.seen.Reports[m.Node]
	return answers && report.At == m.PeerAddr //mutant:second-process-is-listed
}

func (p *planner) register(m gossip.Member) {
	at := 0
	for at < len(p.t.Nodes) && p.t.Nodes[at].ID < m.Node {
		at++
	}
	p.t.Nodes = slices.Insert(p.t.Nodes, at, nodeOf(m))
	p.step("node %s registered", m.Node)
}

// readmit registers the id of a removed node for a new node, which has none of its data.
func (p *planner) readmit(n *Node, m gossip.Member) {
	*n = nodeOf(m)
	n.Incarnation = p.t.NextNumber
	p.t.NextNumber++
	p.step("node %s registered again, with a new disk", m.Node)
}

// nodeOf returns a new node as announced by itself.
func nodeOf(m gossip.Member) Node {
	return Node{
		ID:         m.Node,
		Zone:       m.Zone,
		Version:    m.Version,
		APIAddr:    m.APIAddr,
		PeerAddr:   m.PeerAddr,
		GossipAddr: m.GossipAddr,
	}
}

// undrain ends a draining that was to last until the restart of the node's process.
func (p *planner) undrain(n *Node, life string) {
	if n.State == NodeDraining && n.DrainedLife != "" && n.DrainedLife != life { //mutant:drain-outlives-the-restart
		n.State, n.DrainedLife = NodeActive, ""
		p.step("node %s has been restarted, and drains no more", n.ID)
	}
}

// renew updates a registered node from its announcement.
func (p *planner) renew(n *Node, m gossip.Member) {
	var changes []string
	for _, field := range []struct {
		name  string
		known *string
		now   string
	}{
		{"zone", &n.Zone, m.Zone},
		{"version", &n.Version, m.Version},
		{"API address", &n.APIAddr, m.APIAddr},
		{"peer address", &n.PeerAddr, m.PeerAddr},
		{"gossip address", &n.GossipAddr, m.GossipAddr},
	} {
		if *field.known != field.now {
			*field.known = field.now
			changes = append(changes, fmt.Sprintf("%s %q", field.name, field.now))
		}
	}
	if len(changes) > 0 {
		p.step("node %s announces %s", n.ID, strings.Join(changes, ", "))
	}
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
