package node

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// answer is the report for a node that asks, with the documents that it does not know yet.
func (n *Node) answer(_ string, q placement.Question) placement.Report {
	report := n.report()
	if known := n.known.newest(); known.version > q.TableVersion {
		report.Table = known.text
	}
	if r := n.known.revision(); r != nil && r.Version > q.PoliciesVersion {
		report.Policies = r.Text
	}
	if known := n.known.levelsKnown(); known.version > q.LevelsVersion {
		report.LevelsText = known.text
	}
	return report
}

// heard learns from another node's report.
func (n *Node) heard(report placement.Report) {
	if len(report.Policies) > 0 {
		n.learnPolicies(shard.Document{Version: report.PoliciesVersion, Body: report.Policies})
	}
	if len(report.LevelsText) > 0 {
		n.learnLevels(shard.Document{Version: report.LevelsVersion, Body: report.LevelsText})
	}
	if len(report.Table) > 0 {
		n.learnTable(shard.Document{Version: report.TableVersion, Body: report.Table})
		n.kick()
	}
	for _, r := range report.Replicas {
		if r.Open {
			n.hints.Merge(gossip.Hint{Shard: r.Shard, Epoch: r.Epoch, Node: report.Node})
		}
	}
}

// report describes this node.
func (n *Node) report() placement.Report {
	q := n.known.question()
	report := placement.Report{Node: n.id, WallMicros: n.config.World.Now().UnixMicro(), TableVersion: q.TableVersion,
		PoliciesVersion: q.PoliciesVersion, LevelsVersion: q.LevelsVersion, Levels: n.ownLevels(), Stopping: n.stopping.Load(),
		Full: n.stores.LowDisk(), Problems: n.problems()}
	for _, r := range n.replicas() {
		report.Replicas = append(report.Replicas, n.reportReplica(r))
	}
	slices.SortFunc(report.Replicas, func(a, b placement.ReplicaReport) int { return cmp.Compare(a.Shard, b.Shard) })
	return report
}

func (n *Node) reportReplica(r *replica) placement.ReplicaReport {
	status := r.group.Status()
	told := placement.ReplicaReport{Shard: r.Shard, Number: r.Number, Leading: status.Leading, Open: r.actor.Open(),
		Commit: status.CommitIndex, Applied: status.AppliedIndex}
	r.group.View(func(s *shard.State) {
		told.Epoch, told.Seq, told.Time, told.Keys = s.Epoch(), s.Seq(), s.Time(), s.Records()
		told.PoliciesVersion, told.Sums = shard.AdoptedVersion(s), s.Sums()
	})
	if stopped := r.stopped.Load(); stopped != nil {
		told.Stopped = stopped.Message
	}
	told.Diverged = r.diverged.Load() != nil
	if !status.Leading {
		return told
	}
	members, _, err := r.group.Members()
	if err != nil {
		return told
	}
	for _, m := range members {
		told.Members = append(told.Members, placement.GroupMember{Name: m.Name, Voter: m.Voter})
	}
	return told
}

// reports returns the last reports of all nodes that still answer, this one included.
func (n *Node) reports() map[string]placement.Report {
	all := map[string]placement.Report{n.id: n.report()}
	silent := n.probe.Silent()
	for node, report := range n.probe.Reports() {
		if silent[node] < silentMost {
			all[node] = report
		}
	}
	return all
}

// others names the nodes to ask: those of the table and those that gossip knows, without removed ones.
func (n *Node) others() []string {
	var nodes []string
	if t := n.known.newest(); t.Table != nil {
		for _, node := range t.Listed() {
			nodes = append(nodes, node.ID)
		}
	}
	for _, m := range n.gossip.Members() {
		if m.Cluster == n.stores.Identity().Cluster && m.State == gossip.MemberAlive && !n.removed(m.Node) {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return slices.DeleteFunc(nodes, func(node string) bool { return node == n.id })
}

func (n *Node) removed(node string) bool {
	t := n.known.newest()
	if t.Table == nil {
		return false
	}
	listed := t.Node(node)
	return listed != nil && listed.State == placement.NodeRemoved
}

// peerAddr is the address of a node's peer port: from gossip, which hears of a move first, else from the table.
func (n *Node) peerAddr(node string) (string, bool) {
	for _, m := range n.gossip.Members() {
		if m.Node == node && m.State == gossip.MemberAlive {
			return m.PeerAddr, true
		}
	}
	if t := n.known.newest(); t.Table != nil {
		if listed := t.Node(node); listed != nil {
			return listed.PeerAddr, true
		}
	}
	return "", false
}

// gossipAddrs lists the gossip addresses of the other registered nodes.
func (n *Node) gossipAddrs() (addrs []string) {
	t := n.known.newest()
	if t.Table == nil {
		return nil
	}
	for _, node := range t.Listed() {
		if node.ID != n.id {
			addrs = append(addrs, node.GossipAddr)
		}
	}
	return addrs
}
