package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/cluster/gossip"
)

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
