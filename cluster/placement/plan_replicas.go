package placement

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/shard"
)

// groupState is a group with the counts that the planner needs. They do not follow a change of the table: judge counts
// again.
type groupState struct {
	*Group
	voters      int // replicas with Role Voter
	soundVoters int // those to be kept (planner.sound)
	lostVoters  int
	answering   int // voters that answer
	learners    int
	leaving     int
	staying     int // leaving replicas that answer: while they are members they help to commit
	target      int // number of voters that it should have
	// goal is the part of the target that can be reached with the nodes that are not dead. A group does not stop
	// growing at an even number of voters: that tolerates no more faults and has more replicas to lose.
	goal int
	// hope is goal with the nodes that are dead and may come back.
	hope int
}

func (p *planner) judge(g *Group) groupState {
	s := groupState{Group: g, target: p.target()}
	for _, r := range g.Replicas {
		switch r.Role {
		case Voter:
			s.voters++
			if r.Lost {
				s.lostVoters++
			}
			if p.sound(r) {
				s.soundVoters++
			}
			if p.answers(r) {
				s.answering++
			}
		case Learner:
			s.learners++
		case Leaving:
			s.leaving++
			if p.answers(r) {
				s.staying++
			}
		}
	}
	spare, dead := 0, 0
	for i := range p.t.Nodes {
		if n := &p.t.Nodes[i]; n.State == NodeActive && !p.hasSound(g, n.ID) {
			if p.dead(n.ID) {
				dead++
			} else {
				spare++
			}
		}
	}
	s.goal, s.hope = largestOdd(s.target, s.soundVoters+spare), largestOdd(s.target, s.soundVoters+spare+dead)
	return s
}

// target returns how many voters a group should have: the largest odd number that the registered nodes allow.
func (p *planner) target() int {
	nodes := 0
	for i := range p.t.Nodes {
		if p.t.Nodes[i].State < NodeLeaving {
			nodes++
		}
	}
	return largestOdd(p.t.Replicas, nodes)
}

// changing reports whether a replica is joining or leaving.
func (s *groupState) changing() bool { return s.learners+s.leaving > 0 }

// works reports whether the group can commit now, and so change its configuration.
func (s *groupState) works() bool { return s.answering > s.voters/2 }

// stuck reports whether the group can commit only with the votes of leaving replicas, because voters that were to
// remain have failed since. The leaving replicas stay until there are other voters.
func (s *groupState) stuck() bool {
	return s.leaving > 0 && !s.works() && s.answering+s.staying > (s.voters+s.leaving)/2
}

// badVoters returns the number of voters to be replaced.
func (s *groupState) badVoters() int { return s.voters - s.soundVoters }

// short reports whether the group needs one more replica.
func (s *groupState) short() bool {
	return s.soundVoters < s.goal || s.badVoters() > 0 && s.soundVoters < s.target
}

// hasTooMany reports whether a voter can go. A bad voter goes when it is replaced. If no node is left to replace it, it
// goes only if the group tolerates no fewer faults without it: from an even number of voters, or from more than the
// target. Otherwise it stays listed, because it may come back, and a leaving node waits. A sound voter goes when the
// group has more than it needs.
func (s *groupState) hasTooMany() bool {
	even := s.voters%2 == 0
	if s.badVoters() > 0 {
		return s.soundVoters >= s.target || s.soundVoters >= s.goal && (even || s.voters > s.target)
	}
	return s.soundVoters > s.target || even && s.soundVoters > s.hope
}

// atRest reports whether the group needs no repair.
func (s *groupState) atRest() bool {
	return !s.changing() && s.answering == s.voters && s.badVoters() == 0 && s.soundVoters == s.goal
}

// hasSound reports whether a node has a sound replica of the group.
func (p *planner) hasSound(g *Group, node string) bool {
	return slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Node == node && p.sound(r) })
}

// isLeaving reports whether a replica of a group is leaving a node.
func (p *planner) isLeaving(g *Group, node string) bool {
	return slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Node == node && r.Role == Leaving })
}

// planReplicas decides which replicas leave and which are added.
func (p *planner) planReplicas() {
	busy := 0
	for i := range p.t.Groups {
		s := p.judge(&p.t.Groups[i])
		p.dropBadLearners(s)
		if s.stuck() {
			p.unburden(s)
		} else if p.burdened(s) || !s.changing() && s.hasTooMany() {
			p.retire(s)
		}
		if s = p.judge(s.Group); s.works() { // learners of a group that cannot commit do not count
			busy += s.learners
		}
	}
	for _, s := range p.needy() {
		if busy < learnersMax && p.mend(s) {
			busy++
		}
	}
	p.rebalance()
}

// burdened reports whether a lost voter is to leave now. It does not come back, but counts for the majority. So it
// leaves before another replica comes, and before any other change: whatever fails meanwhile, a majority of the others
// is one of the group, and no two of its voters are lost one after the other. If no node can replace it, it stays
// listed.
func (p *planner) burdened(s groupState) bool {
	//mutant:lost-voter-stays-while-another-comes
	return s.lostVoters > 0 && s.leaving == 0 && (s.learners > 0 || p.bestNodeFor(s.Group) != "")
}

// dropBadLearners gives up learners that will not catch up. They have no vote, so no majority is required.
func (p *planner) dropBadLearners(s groupState) {
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Role == Learner && p.bad(*r) {
			r.Role = Leaving
			p.step("%s: new replica on %s given up", groupName(s.Group), r.Node)
		}
	}
}

// retire marks one voter as leaving, if a majority answers before and after.
func (p *planner) retire(s groupState) {
	var leave *Replica
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.Role == Voter && p.canLose(s, *r) && (s.badVoters() == 0 || p.bad(*r)) && (s.lostVoters == 0 || r.Lost) &&
			(leave == nil || p.leavesBefore(s.Group, *r, *leave)) {
			leave = r
		}
	}
	if leave == nil {
		return
	}
	if p.sound(*leave) {
		p.load[leave.Node]--
		p.step("%s: replica on %s is no longer needed and leaves", groupName(s.Group), leave.Node)
	} else {
		p.step("%s: replica on %s leaves", groupName(s.Group), leave.Node)
	}
	leave.Role = Leaving
}

// unburden drops one voter that will not come back from a stuck group, if the others can commit the removal.
func (p *planner) unburden(s groupState) {
	for i := range s.Replicas {
		r := &s.Replicas[i]
		forGood := r.Lost || p.t.Node(r.Node).State >= NodeLeaving
		if r.Role == Voter && forGood && !p.answers(*r) && s.voters > 1 { // at least one voter has to stay
			r.Role = Leaving
			p.unburdened[s.Shard] = true
			p.step("%s: replica on %s leaves", groupName(s.Group), r.Node)
			return
		}
	}
}

// canLose reports whether a majority of the voters answers now, and will without r.
func (p *planner) canLose(s groupState, r Replica) bool {
	remain := s.answering
	if p.answers(r) {
		remain--
	}
	return s.works() && remain > (s.voters-1)/2 //mutant:voter-leaves-below-majority
}

// leavesBefore orders candidates to leave. Replicas that do not answer come first, then those that share a zone with
// most others of the group, then those on the most loaded node, then those that do not lead. Load comes before the
// lead: otherwise a replica added to take load off another node would be removed again, forever.
func (p *planner) leavesBefore(g *Group, a, b Replica) bool {
	leader := p.leader(g.Shard)
	if leader == "" {
		leader = g.Lead
	}
	return cmp.Or(
		compareBool(p.answers(a), p.answers(b)),
		cmp.Compare(p.inZoneOf(g, b.Node, b.Node), p.inZoneOf(g, a.Node, a.Node)),
		cmp.Compare(p.load[b.Node], p.load[a.Node]),
		compareBool(a.Node == leader, b.Node == leader),
	) < 0
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// inZoneOf counts the sound replicas of a group in the zone of a node, ignoring replicas on the node named by except.
func (p *planner) inZoneOf(g *Group, node, except string) int {
	zone, n := p.t.Node(node).Zone, 0
	for _, r := range g.Replicas {
		if r.Node != except && p.sound(r) && p.t.Node(r.Node).Zone == zone {
			n++
		}
	}
	return n
}

// needy returns the groups that need a replica and can be given one. Those that tolerate the fewest faults come first,
// and the system shard comes before its equals.
func (p *planner) needy() []groupState {
	var found []groupState
	for i := range p.t.Groups {
		if s := p.judge(&p.t.Groups[i]); s.stuck() && s.learners == 0 && !p.unburdened[s.Shard] ||
			!s.changing() && s.works() && s.short() {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b groupState) int {
		return cmp.Or(
			cmp.Compare(a.answering-a.voters/2, b.answering-b.voters/2),
			compareBool(a.Shard != shard.System, b.Shard != shard.System))
	})
	return found
}

// mend adds one replica to a group, if there is a node for it.
func (p *planner) mend(s groupState) bool {
	node := p.bestNodeFor(s.Group)
	if node == "" {
		return false
	}
	for _, r := range s.Replicas {
		if p.bad(r) {
			p.add(s.Group, node)
			p.step("%s: replica on %s added to replace %s's", groupName(s.Group), node, r.Node)
			return true
		}
	}
	p.add(s.Group, node)
	p.step("%s: replica on %s added, for %d voters", groupName(s.Group), node, s.goal)
	return true
}

// add gives a group a learner with a new number.
func (p *planner) add(g *Group, node string) {
	g.Replicas = append(g.Replicas, Replica{Node: node, Number: p.t.NextNumber, Role: Learner})
	p.t.NextNumber++
	p.load[node]++
}

// bestNodeFor returns the node for a new replica of a group, or "" if no node can take it: in the zone with the fewest
// replicas of the group, then with the lowest load. A node with a leaving replica takes none: a node has one vote in a
// group.
func (p *planner) bestNodeFor(g *Group) string {
	best := ""
	for i := range p.t.Nodes {
		n := &p.t.Nodes[i]
		if !p.welcomes(n) || p.hasSound(g, n.ID) || p.isLeaving(g, n.ID) {
			continue
		}
		if best == "" || cmp.Or(
			cmp.Compare(p.inZoneOf(g, n.ID, ""), p.inZoneOf(g, best, "")),
			cmp.Compare(p.load[n.ID], p.load[best])) < 0 {
			best = n.ID
		}
	}
	return best
}
