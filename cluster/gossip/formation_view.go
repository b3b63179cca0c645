package gossip

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// formationView is the input of Form, indexed.
type formationView struct {
	self   *Member
	others map[string]*Member // by id, in any state
}

func newFormationView(self *Member, members []Member) *formationView {
	v := &formationView{self: self, others: make(map[string]*Member, len(members))}
	for i := range members {
		if m := &members[i]; m.Node != self.Node {
			v.others[m.Node] = m
		}
	}
	return v
}

// answering returns the other members that are alive, by id.
func (v *formationView) answering() []*Member {
	var found []*Member
	for _, id := range slices.Sorted(maps.Keys(v.others)) {
		if m := v.others[id]; m.State == MemberAlive {
			found = append(found, m)
		}
	}
	return found
}

// isFormed reports whether a member shows that its cluster exists. A founder announces its formation until it has
// founded the cluster; a member of a cluster that announces no formation has founded or joined it.
func isFormed(m *Member) bool { return m.Cluster != "" && (m.Formation == nil || m.Formation.Go) }

// pursue continues the formation that this node proposed or accepted.
func (v *formationView) pursue(f *Formation) FormationStep {
	creator := f.Founders[0]
	told := v.toldToGo(f.Cluster)
	going := *f
	going.Go = true
	switch {
	case f.Go:
		return FormationStep{Action: FormFound, Formation: f, Why: "every founder has accepted cluster " + f.Cluster}
	case told != "" && creator == v.self.Node:
		// Only this node could have said go, and it has no record of it: its disk was emptied since. The lost data may
		// count already.
		return FormationStep{Action: FormJoin, Cluster: f.Cluster, Why: fmt.Sprintf(
			"cluster %q was founded before this node's data dir was emptied, as %s shows", f.Cluster, told)}
	case told != "":
		return FormationStep{Action: FormFound, Formation: &going, Why: fmt.Sprintf(
			"every founder has accepted cluster %q, says %s", f.Cluster, told)}
	}
	if creator != v.self.Node {
		return wait("cluster %q is founded when its creator has heard of every founder (%s): %s", f.Cluster,
			strings.Join(f.Founders, ", "), v.describe(creator, f.Cluster))
	}
	if missing := v.missing(f); missing != "" {
		return wait("cluster %q is founded when every founder has accepted it: %s", f.Cluster, missing)
	}
	return FormationStep{Action: FormGo, Formation: &going, Why: "every founder has accepted cluster " + f.Cluster}
}

// toldToGo returns a member that shows that a cluster exists, or "". Members that are gone count too.
func (v *formationView) toldToGo(cluster string) string {
	for _, id := range slices.Sorted(maps.Keys(v.others)) {
		if m := v.others[id]; m.Cluster == cluster && isFormed(m) {
			return id
		}
	}
	return ""
}

// missing returns the other founders that are not seen to have accepted, with reasons, or "" if all have.
func (v *formationView) missing(f *Formation) string {
	var missing []string
	for _, id := range f.Founders {
		//mutant:founding-without-a-founder
		if m := v.others[id]; id != v.self.Node && (m == nil || m.State != MemberAlive || m.Cluster != f.Cluster) {
			missing = append(missing, v.describe(id, f.Cluster))
		}
	}
	return strings.Join(missing, "; ")
}

// describe returns the apparent state of a founder of a cluster.
func (v *formationView) describe(id, cluster string) string {
	switch m := v.others[id]; {
	case m == nil:
		return id + " was not seen"
	case m.State != MemberAlive:
		return fmt.Sprintf("%s is %v", id, m.State)
	case m.Cluster == "":
		return id + " has accepted none yet"
	case m.Cluster != cluster:
		return fmt.Sprintf("%s belongs to cluster %q forever, so %q cannot be founded: "+
			"empty the data dirs of its nodes",
			id, m.Cluster, cluster)
	}
	return id + " has accepted it"
}

// join adds a fresh node to the one existing cluster, if there is one.
func (v *formationView) join() (FormationStep, bool) {
	formed := map[string]string{} // by cluster: one of its nodes
	for _, m := range v.answering() {
		if isFormed(m) && formed[m.Cluster] == "" {
			formed[m.Cluster] = m.Node
		}
	}
	ids := slices.Sorted(maps.Keys(formed))
	switch len(ids) {
	case 0:
		return FormationStep{}, false
	case 1:
		return FormationStep{Action: FormJoin, Cluster: ids[0], Why: fmt.Sprintf("%s is of cluster %q", formed[ids[0]],
			ids[0])}, true
	}
	return wait("several clusters are here, %q with %s and %q with %s: correct --join, so that this node sees one",
		ids[0], formed[ids[0]], ids[1], formed[ids[1]]), true
}

// accept takes a proposal that names this fresh node. If it can accept no proposal now, the node waits.
func (v *formationView) accept() (FormationStep, bool) {
	proposals := map[string]*Formation{}
	for _, m := range v.answering() {
		if m.Formation != nil && m.Formation.Cluster == m.Cluster {
			proposals[m.Cluster] = m.Formation
		}
	}
	byCreator := slices.SortedFunc(maps.Values(proposals), func(a, b *Formation) int {
		return strings.Compare(a.Founders[0]+"\x00"+a.Cluster, b.Founders[0]+"\x00"+b.Cluster)
	})
	var reasons []string
	for _, f := range byCreator {
		against := v.against(f)
		if against == "" {
			return FormationStep{Action: FormAccept, Formation: f, Why: fmt.Sprintf(
				"%s founds cluster %q with this node", f.Founders[0], f.Cluster)}, true
		}
		reasons = append(reasons, fmt.Sprintf("cluster %q: %s", f.Cluster, against))
	}
	return wait("%s", strings.Join(reasons, "; ")), len(reasons) > 0
}

// against returns the reason for not accepting a proposal now, or "".
func (v *formationView) against(f *Formation) string {
	if !slices.Contains(f.Founders, v.self.Node) {
		return fmt.Sprintf("it is being founded by %s; this node joins it then", strings.Join(f.Founders, ", "))
	}
	if len(f.Founders) != v.self.Expect {
		return fmt.Sprintf("it is proposed for %d nodes, and --bootstrap-expect is %d", len(f.Founders), v.self.Expect)
	}
	for _, id := range f.Founders {
		m := v.others[id]
		if m != nil && m.Cluster != "" && m.Cluster != f.Cluster {
			return v.describe(id, f.Cluster) // that proposal is lost, so accepting it would lose this node too
		}
	}
	if creator := f.Founders[0]; creator != v.self.Node {
		if m := v.others[creator]; m == nil || m.State != MemberAlive || m.Cluster != f.Cluster {
			return "its creator: " + v.describe(creator, f.Cluster)
		}
		return ""
	}
	// This node proposed it, before its disk was emptied. It continues if every other founder is here, and none shows
	// that this node ever said go.
	for _, id := range f.Founders[1:] {
		if m := v.others[id]; m == nil || m.State != MemberAlive {
			return v.describe(id, f.Cluster)
		}
	}
	return ""
}

// propose founds a cluster when enough fresh nodes are here and this node has the lowest id of them.
func (v *formationView) propose() FormationStep {
	if v.self.Expect == 0 {
		return wait("no cluster to join is here, and this node founds none (--bootstrap-expect)")
	}
	fresh := []string{v.self.Node}
	for _, m := range v.answering() {
		if m.Cluster != "" || m.Expect == 0 {
			continue
		}
		if m.Expect != v.self.Expect {
			return wait("--bootstrap-expect is %d here and %d at %s: make them equal", v.self.Expect, m.Expect, m.Node)
		}
		fresh = append(fresh, m.Node)
	}
	for _, id := range slices.Sorted(maps.Keys(v.others)) {
		if m := v.others[id]; m.Cluster != "" {
			return wait("cluster %q was seen, and %s of it is %v: to found another one in spite of it, "+
				"restart this node",
				m.Cluster, id, m.State)
		}
	}
	slices.Sort(fresh)
	switch {
	case len(fresh) < v.self.Expect:
		return wait("%d of %d nodes that found a cluster are here: %s", len(fresh), v.self.Expect,
			strings.Join(fresh, ", "))
	case fresh[0] != v.self.Node:
		return wait("%d nodes that found a cluster are here; %s is the lowest and will propose it",
			len(fresh), fresh[0])
	}
	founders := fresh[:v.self.Expect]
	return FormationStep{Action: FormPropose, Founders: founders, Why: fmt.Sprintf(
		"%d nodes that found a cluster are here: %s", len(fresh), strings.Join(founders, ", "))}
}
