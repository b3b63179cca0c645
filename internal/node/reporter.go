package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// reporter exchanges reports with the other nodes: it describes this node, and learns from what the others say of themselves.
// It holds no state; all methods may be called concurrently once the data directory is open.
type reporter struct {
	node     string // id of this node
	now      func() time.Time
	dir      *dataDir
	view     *clusterView
	replicas *replicaSet
	peers    *peers
	hints    *gossip.Hints
	stopping func() bool // whether this node stops
	changed  notifier
}

// answer is the report for a node that asks, with the documents that it does not know yet.
func (p *reporter) answer(_ string, q placement.Question) placement.Report {
	report := p.own()
	if known := p.view.newestTable(); known.version > q.TableVersion {
		report.Table = known.text
	}
	if r := p.view.revision(); r != nil && r.Version > q.PoliciesVersion {
		report.Policies = r.Text
	}
	if known := p.view.newestLevels(); known.version > q.LevelsVersion {
		report.LevelsText = known.text
	}
	return report
}

// heard learns from another node's report.
func (p *reporter) heard(report placement.Report) {
	if len(report.Policies) > 0 {
		p.view.learnPolicies(shard.Document{Version: report.PoliciesVersion, Body: report.Policies})
	}
	if len(report.LevelsText) > 0 {
		p.view.learnLevels(shard.Document{Version: report.LevelsVersion, Body: report.LevelsText})
	}
	if len(report.Table) > 0 {
		p.view.learnTable(shard.Document{Version: report.TableVersion, Body: report.Table})
		p.changed.notify()
	}
	for _, r := range report.Replicas {
		if r.Open {
			p.hints.Merge(gossip.Hint{Shard: r.Shard, Epoch: r.Epoch, Node: report.Node})
		}
	}
}

// own describes this node.
func (p *reporter) own() placement.Report {
	q := p.view.question()
	report := placement.Report{Node: p.node, WallMicros: p.now().UnixMicro(), TableVersion: q.TableVersion,
		PoliciesVersion: q.PoliciesVersion, LevelsVersion: q.LevelsVersion, Levels: p.view.ownLevels(), Stopping: p.stopping(),
		Full: p.dir.stores.LowDisk(), Problems: p.problems()}
	for _, r := range p.replicas.all() {
		report.Replicas = append(report.Replicas, r.report())
	}
	slices.SortFunc(report.Replicas, func(a, b placement.ReplicaReport) int { return cmp.Compare(a.Shard, b.Shard) })
	return report
}

// reports returns the last reports of all nodes that still answer, this one included.
func (p *reporter) reports() map[string]placement.Report {
	all := map[string]placement.Report{p.node: p.own()}
	silent := p.peers.silent()
	for node, report := range p.peers.reports() {
		if silent[node] < silentMost {
			all[node] = report
		}
	}
	return all
}

// problems lists what an operator should know about this node, beyond what the table and its replicas say.
func (p *reporter) problems() (problems []string) {
	for r, c := range p.replicas.convictions(convictedAgain) {
		problems = append(problems, fmt.Sprintf("node %s: its replica of shard %s was convicted at %s and is replaced: %s; check the "+
			"machine's memory", p.node, r.Shard, c.At.UTC().Format(time.RFC3339), c.Why))
	}
	t := p.view.newestTable()
	if len(problems) > 1 && t.Table != nil && t.Node(p.node) != nil && t.Node(p.node).State == placement.NodeDraining {
		problems = append(problems, fmt.Sprintf("node %s is drained, since several of its replicas were convicted within a day; when its "+
			"memory is known to be good, stint drain %s --off lets it lead again", p.node, p.node))
	}
	if p.peers.hasJoined() {
		problems = append(problems, certificateProblems(p.node, p.peers.port.CertificateEnds(), p.now())...)
	}
	slices.Sort(problems)
	return problems
}
