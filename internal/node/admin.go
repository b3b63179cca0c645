package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// admin implements api.ClusterAdmin for one node.
type admin struct{ n *Node }

var _ api.ClusterAdmin = admin{}

// Apply implements api.ClusterAdmin: the set is in force once it is committed; shards adopt it with their next batch.
func (a admin) Apply(ctx context.Context, set *policy.Set, expected *uint64, who, note string) (uint64, []uint32, error) {
	current, err := a.n.fetch(ctx, placement.PoliciesDocument)
	if err != nil {
		return 0, nil, err
	}
	if expected != nil && *expected != current.Version {
		return 0, nil, api.VersionConflict(*expected, current.Version)
	}
	if field := set.Newer(); field != "" && a.n.level() < shard.LevelSound {
		return 0, nil, &shard.Error{Code: shard.Conflict, Field: "policies." + field, Message: "some nodes of the cluster cannot " +
			"read this before its upgrade is finished: `stint upgrade status` says how far it is"}
	}
	text := policy.Format(set)
	if bytes.Equal(text, current.Body) {
		return current.Version, a.n.pendingShards(current.Version), nil
	}
	d, err := a.n.replace(ctx, shard.Request{Document: placement.PoliciesDocument, Expect: current.Version, Body: text,
		Adjustment: &shard.Adjustment{Actor: who, Note: note}})
	if err != nil {
		return 0, nil, err
	}
	a.n.config.Logger.Info("policies applied", "version", d.Version, "actor", who, "note", note)
	a.n.learnPolicies(d)
	a.n.kickOthers()
	return d.Version, a.n.pendingShards(d.Version), nil
}

// PolicyHistory implements api.ClusterAdmin.
func (a admin) PolicyHistory(ctx context.Context) ([]shard.DocumentChange, error) {
	d, err := a.n.fetch(ctx, shard.HistoryOf(placement.PoliciesDocument))
	if err != nil {
		return nil, err
	}
	return shard.DocumentChanges(d)
}

// kickOthers asks the other nodes at once, so that news travels now.
func (n *Node) kickOthers() {
	n.kick()
	n.probe.Kick()
}

// pendingShards lists the data shards that have not yet adopted a version of the policies, as far as this node knows.
func (n *Node) pendingShards(version uint64) (pending []uint32) {
	reports := n.reports()
	for id := range uint32(n.shards()) {
		if _, r := ownerReport(reports, shard.ID(id)); r == nil || r.PoliciesVersion < version {
			pending = append(pending, id)
		}
	}
	return pending
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

// Drain implements api.ClusterAdmin.
func (a admin) Drain(ctx context.Context, node string, on bool) (left int, err error) {
	if node == "" {
		node = a.n.id
	}
	state := placement.NodeActive
	if on {
		state = placement.NodeDraining
	}
	err = a.change(ctx, node, state, func(*placement.Table) error { return nil })
	if err != nil { // no count: this node may have no reports yet
		return 0, err
	}
	for _, r := range a.n.reports()[node].Replicas {
		if r.Open {
			left++
		}
	}
	return left, nil
}

// RemoveNode implements api.ClusterAdmin.
func (a admin) RemoveNode(ctx context.Context, node string) error {
	return a.change(ctx, node, placement.NodeLeaving, func(t *placement.Table) error {
		if !slices.ContainsFunc(t.Nodes, func(o placement.Node) bool {
			return o.ID != node && (o.State == placement.NodeActive || o.State == placement.NodeDraining)
		}) {
			return &shard.Error{Code: shard.Conflict, Field: "node_id",
				Message: fmt.Sprintf("%q is the last node: stop it instead", node)}
		}
		return nil
	})
}

// change brings a node into a state, if the table permits it (ApplyNodeState) and allowed does. It reads the table first: by
// an old table, there might seem to be nothing to change.
func (a admin) change(ctx context.Context, node string, state placement.NodeState,
	allowed func(*placement.Table) error) (refused error) {
	if a.n.known.newest().Table == nil {
		return errNoTable
	}
	if err := a.n.readTable(ctx); err != nil {
		return err
	}
	err := a.n.changeTable(ctx, func(t *placement.Table) *placement.Table {
		if t.Node(node) == nil {
			refused = shard.Invalidf("node_id", "no node is named %q; stint status lists them", node)
		} else {
			refused = allowed(t)
		}
		if refused != nil {
			return nil
		}
		return t.ApplyNodeState(node, state)
	})
	if err != nil {
		return err
	}
	a.n.kickOthers()
	return refused
}

// Status implements api.ClusterAdmin.
func (a admin) Status(context.Context) (api.ClusterStatus, error) {
	n := a.n
	known := n.known.newest()
	if known.Table == nil || !n.hasJoined() {
		return api.ClusterStatus{}, &shard.Error{Code: shard.Unavailable,
			Message: "this node belongs to no cluster yet, or does not know its table; ask again"}
	}
	q := n.known.question()
	reports, silent := n.reports(), n.probe.Silent()
	s := api.ClusterStatus{ClusterID: known.Cluster, TableVersion: q.TableVersion, PoliciesVersion: q.PoliciesVersion}
	for _, node := range known.Nodes {
		s.Nodes = append(s.Nodes, n.nodeStatus(known.Table, node, reports, silent[node.ID]))
	}
	for _, g := range known.Groups {
		s.Shards = append(s.Shards, n.shardStatus(&g, reports))
		s.Moves = append(s.Moves, movesOf(&g)...)
	}
	slices.SortFunc(s.Shards, func(a, b api.ShardStatus) int { return cmp.Compare(a.ID, b.ID) })
	s.Problems = append(problemsOf(&s), strangersTo(known.Table, reports)...)
	s.Problems = append(s.Problems, reportedProblems(reports)...)
	return s, nil
}

func (n *Node) nodeStatus(t *placement.Table, node placement.Node, reports map[string]placement.Report,
	silent time.Duration) api.NodeStatus {
	s := api.NodeStatus{ID: node.ID, Zone: node.Zone, Version: node.Version, APIAddr: node.APIAddr,
		PeerAddr: node.PeerAddr, State: stateName(node.State), Alive: node.ID == n.id || silent < silentMost, Silent: silent}
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
	if ahead, ok := n.probe.Offset([]string{node.ID}); ok && node.ID != n.id {
		s.ClockAhead = -ahead
	}
	return s
}

func stateName(s placement.NodeState) string {
	return [...]string{"active", "draining", "leaving", "removed"}[s]
}

func (n *Node) shardStatus(g *placement.Group, reports map[string]placement.Report) api.ShardStatus {
	s := api.ShardStatus{ID: g.Shard}
	node, owner := ownerReport(reports, g.Shard)
	if owner != nil {
		s.Owner, s.Epoch, s.Seq, s.Time = node, owner.Epoch, owner.Seq, owner.Time
		s.Keys, s.PoliciesVersion = owner.Keys, owner.PoliciesVersion
	}
	for _, r := range g.Replicas {
		told := api.ReplicaStatus{Node: r.Node, Number: r.Number, Lost: r.Lost,
			Role: [...]string{"learner", "voter", "leaving"}[r.Role]}
		for _, heard := range reports[r.Node].Replicas {
			if heard.Shard == g.Shard && heard.Number == r.Number {
				told.Known = true
				if owner != nil && owner.Commit > heard.Applied {
					told.Lag = owner.Commit - heard.Applied
				}
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

// clockOffMost is how far two clocks may be apart before an operator should know.
const clockOffMost = 200 * time.Millisecond

// reportedProblems lists the problems that nodes report about themselves and that an operator should look at.
func reportedProblems(reports map[string]placement.Report) []string {
	problems := stopProblems(reports)
	for _, report := range reports {
		problems = append(problems, report.Problems...)
	}
	slices.Sort(problems)
	return problems
}

// stopProblems says for each stopped shard why it stopped and which nodes say so. It also lists replicas whose records are
// wrong: these need not stop their shard.
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

// problemsOf lists the problems that an operator should look at.
func problemsOf(s *api.ClusterStatus) (problems []string) {
	for _, node := range s.Nodes {
		if !node.Alive && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s has not answered for %v", node.ID,
				node.Silent.Round(time.Second)))
		}
		if ahead := node.ClockAhead.Round(time.Millisecond); ahead.Abs() > clockOffMost && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s's clock is %v ahead of this node's (behind, if negative): "+
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
