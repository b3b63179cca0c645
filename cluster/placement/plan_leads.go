package placement

import "slices"

// leads plans which node should lead each group.
type leads struct {
	p     *planner
	able  [][]string // by group: nodes that can lead it, sorted
	fixed []bool     // by group: keep its lead, because the group is changing and its lead is able
	all   bool       // whether all groups are planned, or the busy ones
}

// planLeads names for every group the node that should lead it: an active, answering voter, or "" if there is none.
// Leads are spread as evenly as the groups allow, with as few changes as that takes: those of the busy groups, and then
// all, as far as the busy ones stay spread.
func (p *planner) planLeads() {
	l := &leads{p: p}
	before := make([]string, len(p.t.Groups))
	for i := range p.t.Groups {
		g := &p.t.Groups[i]
		before[i] = g.Lead
		l.able = append(l.able, p.ableToLead(g))
		s := p.judge(g)
		valid := slices.Contains(l.able[i], g.Lead)
		l.fixed = append(l.fixed, valid && s.changing())
		if !valid {
			g.Lead = ""
		}
	}
	for _, l.all = range []bool{false, true} {
		l.fill()
		for improved := true; improved; {
			improved = l.improve()
		}
	}
	for i := range p.t.Groups {
		p.stepLead(&p.t.Groups[i], before[i])
	}
}

// isBusy reports whether a group does the work of a shard that has a share of the slots. The others have little to do.
func (l *leads) isBusy(g *Group) bool {
	return uint32(g.Shard) < l.p.t.WantedShards() //mutant:idle-groups-count-as-busy
}

// count returns how many groups that are planned a node should lead, and how many of them are busy.
func (l *leads) count(node string) (n, busy int) {
	for i := range l.p.t.Groups {
		switch g := &l.p.t.Groups[i]; {
		case g.Lead != node:
		case l.isBusy(g):
			n, busy = n+1, busy+1
		case l.all:
			n++
		}
	}
	return n, busy
}

func (p *planner) stepLead(g *Group, before string) {
	switch {
	case g.Lead == before:
	case g.Lead == "":
		p.step("%s: %s should no longer lead, and no other node can", groupName(g), before)
	case before == "":
		p.step("%s: %s should lead", groupName(g), g.Lead)
	default:
		p.step("%s: %s should lead instead of %s", groupName(g), g.Lead, before)
	}
}

// ableToLead returns the nodes that can lead a group.
func (p *planner) ableToLead(g *Group) []string {
	var able []string
	for _, r := range g.Replicas {
		report := p.seen.Reports[r.Node]
		if r.Role == Voter && !r.Lost && p.t.Node(r.Node).State == NodeActive &&
			p.seen.Silent[r.Node] <= leadPatience && report.Fit() {
			able = append(able, r.Node)
		}
	}
	slices.Sort(able)
	return able
}

// fill gives each group without a lead the able node with the fewest leads. Among equals, the current leader is
// preferred.
func (l *leads) fill() {
	for i := range l.p.t.Groups {
		g := &l.p.t.Groups[i]
		if g.Lead != "" || !l.all && !l.isBusy(g) {
			continue
		}
		leader, fewest := l.p.leader(g.Shard), 0
		for _, node := range l.able[i] {
			if n, _ := l.count(node); g.Lead == "" || n < fewest || n == fewest && node == leader {
				g.Lead, fewest = node, n
			}
		}
	}
}

// handover is one link of a chain: a group gets another lead.
type handover struct {
	group int
	to    string
}

// improve takes one lead off a node and gives one to a node that has at least two fewer, by the shortest chain of
// groups that allows it. It returns false if there is none. When no such chain is left, no assignment is more even
// (Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing", 2003).
func (l *leads) improve() bool {
	var shortest []handover
	for i := range l.p.t.Nodes {
		chain := l.chainFrom(l.p.t.Nodes[i].ID)
		if chain != nil && (shortest == nil || len(chain) < len(shortest)) {
			shortest = chain
		}
	}
	for _, h := range shortest {
		l.p.t.Groups[h.group].Lead = h.to
	}
	return shortest != nil
}

// chainFrom searches, breadth first, for a node with at least two fewer leads than from. It returns nil if none can be
// reached.
func (l *leads) chainFrom(from string) []handover {
	most, _ := l.count(from)
	chains := map[string][]handover{from: {}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		if n, _ := l.count(node); n <= most-2 {
			return chains[node]
		}
		for i := range l.p.t.Groups {
			if l.p.t.Groups[i].Lead != node || l.fixed[i] {
				continue
			}
			for _, next := range l.able[i] {
				if _, seen := chains[next]; !seen && l.mayPass(i, next) {
					chains[next] = append(slices.Clone(chains[node]), handover{i, next})
					queue = append(queue, next)
				}
			}
		}
	}
	return nil
}

// mayPass reports whether a group may get another lead.
func (l *leads) mayPass(group int, to string) bool {
	g := &l.p.t.Groups[group]
	switch {
	case !l.isBusy(g):
		return l.all
	case !l.all:
		return true
	}
	_, former := l.count(g.Lead)
	_, next := l.count(to)
	return next < former
}
