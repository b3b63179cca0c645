package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Status implements api.ClusterAdmin.
func (a *admin) Status(context.Context) (api.ClusterStatus, error) {
	known := a.view.newestTable()
	if !a.view.hasTable() || !a.peers.hasJoined() {
		return api.ClusterStatus{}, &shard.Error{Code: shard.Unavailable,
			Message: a.view.noCluster() + "; ask again"}
	}
	reports, silent := a.reporter.reports(), a.peers.silent()
	s := api.ClusterStatus{ClusterID: known.Cluster, TableVersion: a.view.table.now().version,
		PoliciesVersion: a.view.policies.now().version}
	for _, node := range known.Nodes {
		s.Nodes = append(s.Nodes, a.nodeStatus(known, node, reports, silent[node.ID]))
	}
	for _, g := range known.Groups {
		s.Shards = append(s.Shards, a.shardStatus(&g, known.Slots, reports))
		s.Moves = append(s.Moves, movesOf(&g)...)
	}
	s.WantedShards, s.SlotsToMove, s.SlotMoves = known.WantedShards(), known.SlotsToMove(), slotMoves(known, reports)
	s.ShardsRevision = known.Asked
	s.Moves = append(s.Moves, slotMovesText(&s)...)
	slices.SortFunc(s.Shards, func(a, b api.ShardStatus) int { return cmp.Compare(a.ID, b.ID) })
	s.Problems = append(append(twiceUsed(reports), problemsOf(&s)...), strangersTo(known, reports)...) // causes first
	s.Problems = append(s.Problems, reportedProblems(reports)...)
	moves, problems := keyRotation(s.Nodes)
	s.Moves, s.Problems = append(s.Moves, moves...), append(s.Problems, problems...)
	s.LastBackup = a.lastBackup()
	return s, nil
}

func (a *admin) nodeStatus(t *placement.Table, node placement.Node, reports map[string]placement.Report,
	silent time.Duration) api.NodeStatus {
	s := api.NodeStatus{ID: node.ID, Zone: node.Zone, Version: node.Version, APIAddr: node.APIAddr,
		PeerAddr: node.PeerAddr, State: stateName(node.State), Alive: node.ID == a.node || silent < silentMost,
		Silent: silent}
	for _, g := range t.Groups {
		for _, r := range g.Replicas {
			if r.Node == node.ID {
				s.Replicas++
			}
		}
		if owner, _ := ownerReport(reports, g.Shard); owner == node.ID {
			s.Owns++
		}
	}
	if ahead, ok := a.peers.offset([]string{node.ID}); ok && node.ID != a.node {
		s.ClockAhead = -ahead
	}
	report := reports[node.ID]
	s.KeyLines, s.APICertificateEnds, s.PeerCertificateEnds = report.KeyLines, report.APICertificateEnds,
		report.PeerCertificateEnds
	s.Machine, s.DiskFull = report.Machine, report.Full
	return s
}

func stateName(s placement.NodeState) string {
	return [...]string{"active", "draining", "leaving", "removed"}[s]
}

func (a *admin) shardStatus(g *placement.Group, slots *slot.Map, reports map[string]placement.Report) api.ShardStatus {
	s := api.ShardStatus{ID: g.Shard, Slots: slots.Ranges(uint32(g.Shard))}
	node, owner := ownerReport(reports, g.Shard)
	if owner != nil {
		s.Owner, s.Epoch, s.Seq, s.Time = node, owner.Epoch, owner.Seq, owner.Time
		s.Keys, s.PoliciesVersion = owner.Keys, owner.PoliciesVersion
	}
	for _, r := range g.Replicas {
		told := api.ReplicaStatus{Node: r.Node, Number: r.Number, Lost: r.Lost,
			Role: [...]string{"learner", "voter", "leaving"}[r.Role]}
		if heard := replicaIn(reports[r.Node], g.Shard, r.Number); heard != nil {
			told.Known = true
			if owner != nil && owner.Commit > heard.Applied {
				told.Lag = owner.Commit - heard.Applied
			}
		}
		s.Replicas = append(s.Replicas, told)
	}
	return s
}

// movesOf lists the replicas that are being added or removed.
func movesOf(g *placement.Group) (moves []string) {
	for _, r := range g.Replicas {
		switch {
		case r.Role == placement.Learner:
			moves = append(moves, fmt.Sprintf("shard %s: a replica on %s is catching up", g.Shard, r.Node))
		case r.Role == placement.Leaving:
			moves = append(moves, fmt.Sprintf("shard %s: the replica on %s is leaving", g.Shard, r.Node))
		}
	}
	return moves
}

// slotMoves lists the slots that move, and what each waits for.
func slotMoves(t *placement.Table, reports map[string]placement.Report) (moves []api.SlotMove) {
	for _, m := range t.Moves {
		driver, _ := ownerReport(reports, m.To)
		told := api.SlotMove{Move: m}
		if driver == "" {
			told.Waits = fmt.Sprintf("shard %s has no owner", m.To)
		}
		for _, r := range reports[driver].Moves {
			if r.Slot == m.Slot {
				told.Waits = r.Waits
			}
		}
		moves = append(moves, told)
	}
	return moves
}

// slotMovesText says how many slots are still to move, and what those wait for that do.
func slotMovesText(s *api.ClusterStatus) (moves []string) {
	if s.SlotsToMove > 0 {
		moves = append(moves, fmt.Sprintf("%d slots are to move until %d shards have equally many",
			s.SlotsToMove, s.WantedShards))
	}
	for _, m := range s.SlotMoves {
		if m.Waits != "" {
			moves = append(moves, fmt.Sprintf("slot %d, from shard %s to shard %s, waits: %s",
				m.Slot, m.From, m.To, m.Waits))
		}
	}
	return moves
}

// clockOffMost is how far two clocks may be apart before an operator should know.
const clockOffMost = 200 * time.Millisecond

// reportedProblems lists the problems that nodes report about themselves and that an operator should look at.
func reportedProblems(reports map[string]placement.Report) []string {
	problems := append(stopProblems(reports), capProblems(reports)...)
	for _, report := range reports {
		problems = append(problems, report.Problems...)
	}
	slices.Sort(problems)
	return problems
}

// stopProblems says for each stopped shard why it stopped and which nodes say so. It also lists replicas with wrong
// records: these need not stop their shard.
func stopProblems(reports map[string]placement.Report) (problems []string) {
	why, saidBy := make(map[shard.ID]string), make(map[shard.ID][]string)
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		for _, r := range reports[node].Replicas {
			switch {
			case r.Stopped == "":
			case r.Diverged:
				problems = append(problems, r.Stopped)
			default: // replicas differ at the same place, as a rule: the first node's text will do
				why[r.Shard] = cmp.Or(why[r.Shard], r.Stopped)
				saidBy[r.Shard] = append(saidBy[r.Shard], node)
			}
		}
	}
	for id, nodes := range saidBy {
		problems = append(problems, fmt.Sprintf("%s (so say %s)", why[id], strings.Join(nodes, ", ")))
	}
	return problems
}

// capProblems lists the policies that have nearly as many keys as they may.
func capProblems(reports map[string]placement.Report) (problems []string) {
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		for _, r := range reports[node].Replicas {
			for _, use := range r.NearCap {
				problems = append(problems,
					fmt.Sprintf("shard %s: policy %s has %d of its %d keys (its part of max_keys) in namespace %s",
						r.Shard, use.Policy, use.Keys, use.MaxKeys, use.Namespace))
			}
		}
	}
	return problems
}

// problemsOf lists the problems that an operator should look at. What others follow from comes first.
func problemsOf(s *api.ClusterStatus) (problems []string) {
	for _, node := range s.Nodes {
		if m := node.Machine; m != nil && node.DiskFull && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s: %d MiB free: it takes no writes",
				node.ID, m.DiskFree>>20))
		}
	}
	for _, node := range s.Nodes {
		if !node.Alive && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s has not answered for %v", node.ID,
				node.Silent.Round(time.Second)))
		}
		if ahead := node.ClockAhead.Round(time.Millisecond); ahead.Abs() > clockOffMost && node.State != "removed" {
			problems = append(problems,
				fmt.Sprintf("node %s's clock is %v ahead of this node's (behind, if negative): "+
					"a shard whose voters' clocks do not agree begins no epoch", node.ID, ahead))
		}
	}
	for _, one := range s.Shards {
		if one.Owner == "" {
			problems = append(problems, fmt.Sprintf("shard %s has no owner", one.ID))
		}
		for _, r := range one.Replicas {
			if r.Lost {
				problems = append(problems, fmt.Sprintf("shard %s: the replica on %s is lost", one.ID, r.Node))
			}
		}
	}
	return problems
}

// twiceUsed lists the node ids that several processes use.
func twiceUsed(reports map[string]placement.Report) (problems []string) {
	for _, report := range reports {
		problems = append(problems, report.Twice...)
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// strangersTo lists the nodes that answer but cannot read what the cluster writes: they are given no replicas.
func strangersTo(t *placement.Table, reports map[string]placement.Report) (problems []string) {
	for _, report := range reports {
		if report.Levels.Max < t.Level {
			problems = append(problems,
				fmt.Sprintf("node %s knows feature level %d and the cluster is at %d: "+
					"it is given no replica until it runs a newer release", report.Node, report.Levels.Max, t.Level))
		}
	}
	return problems
}

// ownerReport finds the node that says it owns a shard. If two do, the newest epoch wins.
func ownerReport(reports map[string]placement.Report, id shard.ID) (node string, owner *placement.ReplicaReport) {
	for from, report := range reports {
		for i := range report.Replicas {
			r := &report.Replicas[i]
			if r.Shard == id && r.Open && (owner == nil || r.Epoch > owner.Epoch) {
				node, owner = from, r
			}
		}
	}
	return node, owner
}
