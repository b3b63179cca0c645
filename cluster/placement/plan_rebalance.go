package placement

import "cmp"

// replicaMove takes a replica of a group from one node to another.
type replicaMove struct {
	group    *Group
	from, to string
	zones    int  // change in the number of pairs of replicas in one zone; negative is better
	relief   int  // how many more replicas from has than to
	leads    bool // the moved replica should lead
}

// rebalance starts one move at a time, and only when nothing else is in progress in any group, because repairs change
// the loads. The new replica joins first. Then the group has one too many, and retire removes it from the fullest zone
// and node. Every finished move leaves fewer pairs of replicas in one zone, or as many and a smaller sum of the squared
// loads, so the moves come to an end.
func (p *planner) rebalance() {
	for i := range p.t.Groups {
		if s := p.judge(&p.t.Groups[i]); s.changing() || s.works() && s.hasTooMany() {
			return
		}
	}
	m, found := p.bestMove(func(g *Group) bool { s := p.judge(g); return s.atRest() })
	if !found {
		return
	}
	p.add(m.group, m.to)
	if m.zones < 0 {
		p.step("%s: replica on %s added, for another zone than %s's", groupName(m.group), m.to, m.from)
	} else {
		p.step("%s: replica on %s added to take load off %s", groupName(m.group), m.to, m.from)
	}
}

// bestMove returns the move that improves most, among the replicas of eligible groups on active nodes.
func (p *planner) bestMove(eligible func(*Group) bool) (best replicaMove, found bool) {
	for i := range p.t.Groups {
		g := &p.t.Groups[i]
		if !eligible(g) {
			continue
		}
		for _, r := range g.Replicas {
			for j := range p.t.Nodes {
				m, useful := p.moveOf(g, r, &p.t.Nodes[j])
				if useful && (!found || m.compare(best) < 0) {
					best, found = m, true
				}
			}
		}
	}
	return best, found
}

// moveOf evaluates moving r to a node.
func (p *planner) moveOf(g *Group, r Replica, to *Node) (m replicaMove, useful bool) {
	if p.t.Node(r.Node).State != NodeActive || !p.welcomes(to) || p.hasSound(g, to.ID) {
		return replicaMove{}, false
	}
	m = replicaMove{group: g, from: r.Node, to: to.ID, leads: g.Lead == r.Node,
		zones:  p.inZoneOf(g, to.ID, r.Node) - p.inZoneOf(g, r.Node, r.Node),
		relief: p.load[r.Node] - p.load[to.ID]}
	return m, m.zones < 0 || m.zones == 0 && m.relief >= 2
}

// compare orders the better move first.
func (m replicaMove) compare(other replicaMove) int {
	return cmp.Or(
		cmp.Compare(m.zones, other.zones),
		cmp.Compare(other.relief, m.relief),
		compareBool(m.leads, other.leads))
}
