package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Status implements api.ClusterAdmin.
func (a *admin) Status(context.Context) (*stintv1.StatusResponse, error) {
	known := a.view.newestTable()
	if !a.view.hasTable() || !a.peers.hasJoined() {
		return nil, &shard.Error{Code: shard.Unavailable, Message: a.view.noCluster() + "; ask again"}
	}
	reports, silent := a.reporter.reports(), a.peers.silent()
	s := &stintv1.StatusResponse{
		ClusterId:       known.Cluster,
		TableVersion:    a.view.table.now().version,
		PoliciesVersion: a.view.policies.now().version,
		LastBackup:      api.Moment(a.lastBackup()),
		WantedShards:    known.WantedShards(),
		ShardsRevision:  known.Asked,
		SlotsToMove:     uint32(known.SlotsToMove()),
		SlotMoves:       slotMoves(known, reports),
	}
	for _, node := range known.Nodes {
		s.Nodes = append(s.Nodes, a.nodeStatus(known, node, reports, silent[node.ID]))
	}
	for _, g := range known.Groups {
		s.Shards = append(s.Shards, a.shardStatus(&g, known.Slots, reports))
		s.Moves = append(s.Moves, replicaMoves(&g)...)
	}
	s.Moves = append(s.Moves, slotMovesText(s)...)
	slices.SortFunc(s.Shards, func(a, b *stintv1.Shard) int { return cmp.Compare(a.Id, b.Id) })
	s.Problems = append(twiceProblems(reports), statusProblems(s)...) // causes first
	s.Problems = append(s.Problems, levelProblems(known, reports)...)
	s.Problems = append(s.Problems, reportedProblems(reports)...)
	moves, problems := keyRotation(s.Nodes)
	s.Moves, s.Problems = append(s.Moves, moves...), append(s.Problems, problems...)
	return s, nil
}

func (a *admin) nodeStatus(t *placement.Table, node placement.Node, reports map[string]placement.Report,
	silent time.Duration) *stintv1.Node {
	report := reports[node.ID]
	s := &stintv1.Node{
		Id:         node.ID,
		ApiAddr:    node.APIAddr,
		Zone:       node.Zone,
		Version:    node.Version,
		Alive:      node.ID == a.node || silent < silentMost,
		Draining:   node.State == placement.NodeDraining,
		State:      node.State.String(),
		Silent:     durationpb.New(silent),
		PeerAddr:   node.PeerAddr,
		ClockAhead: &durationpb.Duration{},
		KeyLines:   report.KeyLines,
		Machine:    machineStatus(report.Machine, report.Full),
		Edges:      uint32(report.Edges),
		Leases:     uint32(report.Leases),

		ApiCertificateEnds:  api.Moment(report.APICertificateEnds),
		PeerCertificateEnds: api.Moment(report.PeerCertificateEnds),
	}
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
		s.ClockAhead = durationpb.New(-ahead)
	}
	return s
}

// machineStatus is what a node has reported of its machine; nil: nothing.
func machineStatus(r *placement.Machine, full bool) *stintv1.Machine {
	if r == nil {
		return nil
	}
	m := &stintv1.Machine{DiskFree: r.DiskFree, DiskFull: full, Memory: r.Memory, MemoryLimit: r.MemoryLimit,
		RecordBytes: r.RecordBytes, RecordBytesLimit: r.RecordLimit}
	if r.LogWriteSlowest > 0 {
		m.LogWriteMean, m.LogWriteSlowest = durationpb.New(r.LogWriteMean), durationpb.New(r.LogWriteSlowest)
	}
	return m
}

func (a *admin) shardStatus(g *placement.Group, slots *slot.Map, reports map[string]placement.Report) *stintv1.Shard {
	s := &stintv1.Shard{Id: uint32(g.Shard), Name: g.Shard.String()}
	for _, r := range slots.Ranges(uint32(g.Shard)) {
		s.Slots = append(s.Slots, &stintv1.SlotRange{First: uint32(r.First), Last: uint32(r.Last)})
	}
	node, owner := ownerReport(reports, g.Shard)
	if owner != nil {
		s.Owner, s.Epoch, s.Seq, s.Time = node, owner.Epoch, owner.Seq, api.Moment(time.UnixMicro(int64(owner.Time)))
		s.Keys, s.PoliciesVersion = uint64(max(owner.Keys, 0)), owner.PoliciesVersion
	}
	for _, r := range g.Replicas {
		told := &stintv1.Replica{Node: r.Node, Voter: r.Role == placement.Voter, Number: r.Number, Lost: r.Lost,
			Role: r.Role.String()}
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

// replicaMoves lists the replicas that are being added or removed.
func replicaMoves(g *placement.Group) (moves []string) {
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
func slotMoves(t *placement.Table, reports map[string]placement.Report) (moves []*stintv1.SlotMove) {
	for _, m := range t.Moves {
		driver, _ := ownerReport(reports, m.To)
		told := &stintv1.SlotMove{Slot: uint32(m.Slot), From: uint32(m.From), To: uint32(m.To), Back: m.Back}
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
func slotMovesText(s *stintv1.StatusResponse) (moves []string) {
	if s.SlotsToMove > 0 {
		moves = append(moves, fmt.Sprintf("%d slots are to move until %d shards have equally many",
			s.SlotsToMove, s.WantedShards))
	}
	for _, m := range s.SlotMoves {
		if m.Waits != "" {
			moves = append(moves, fmt.Sprintf("slot %d, from shard %d to shard %d, waits: %s",
				m.Slot, m.From, m.To, m.Waits))
		}
	}
	return moves
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
