package api

import (
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
)

// statusOf translates a cluster's status into a message.
func statusOf(s *ClusterStatus) *stintv1.StatusResponse {
	m := &stintv1.StatusResponse{
		ClusterId:       s.ClusterID,
		PoliciesVersion: s.PoliciesVersion,
		TableVersion:    s.TableVersion,
		Moves:           s.Moves,
		Problems:        s.Problems,
		Partial:         s.Partial,
		LastBackup:      momentOf(s.LastBackup),
		WantedShards:    s.WantedShards,
		ShardsRevision:  s.ShardsRevision,
		SlotsToMove:     count32(s.SlotsToMove),
	}
	for _, v := range s.SlotMoves {
		m.SlotMoves = append(m.SlotMoves, &stintv1.SlotMove{Slot: uint32(v.Slot), From: uint32(v.From),
			To: uint32(v.To), Back: v.Back, Waits: v.Waits})
	}
	for i := range s.Nodes {
		m.Nodes = append(m.Nodes, nodeOf(&s.Nodes[i]))
	}
	for i := range s.Shards {
		m.Shards = append(m.Shards, shardOf(&s.Shards[i]))
	}
	return m
}

func nodeOf(n *NodeStatus) *stintv1.Node {
	return &stintv1.Node{
		Id:         n.ID,
		ApiAddr:    n.APIAddr,
		Zone:       n.Zone,
		Version:    n.Version,
		Alive:      n.Alive,
		Draining:   n.State == "draining",
		State:      n.State,
		Silent:     durationpb.New(n.Silent),
		PeerAddr:   n.PeerAddr,
		Owns:       count32(n.Owns),
		Replicas:   count32(n.Replicas),
		ClockAhead: durationpb.New(n.ClockAhead),
		KeyLines:   n.KeyLines,
		Machine:    machineOf(n.Machine, n.DiskFull),

		ApiCertificateEnds:  momentOf(n.APICertificateEnds),
		PeerCertificateEnds: momentOf(n.PeerCertificateEnds),
	}
}

func machineOf(s *placement.Machine, full bool) *stintv1.Machine {
	if s == nil {
		return nil
	}
	m := &stintv1.Machine{DiskFree: s.DiskFree, DiskFull: full, Memory: s.Memory, MemoryLimit: s.MemoryLimit,
		RecordBytes: s.RecordBytes, RecordBytesLimit: s.RecordLimit}
	if s.LogWriteSlowest > 0 {
		m.LogWriteMean, m.LogWriteSlowest = durationpb.New(s.LogWriteMean), durationpb.New(s.LogWriteSlowest)
	}
	return m
}

func shardOf(s *ShardStatus) *stintv1.Shard {
	m := &stintv1.Shard{
		Id:              uint32(s.ID),
		Name:            s.ID.String(),
		Owner:           s.Owner,
		Epoch:           s.Epoch,
		Seq:             s.Seq,
		Time:            optionalTimestamp(s.Time),
		Keys:            uint64(max(s.Keys, 0)),
		PoliciesVersion: s.PoliciesVersion,
	}
	for _, r := range s.Slots {
		m.Slots = append(m.Slots, &stintv1.SlotRange{First: uint32(r.First), Last: uint32(r.Last)})
	}
	for _, r := range s.Replicas {
		m.Replicas = append(m.Replicas, &stintv1.Replica{
			Node:   r.Node,
			Voter:  r.Role == "voter",
			Lag:    r.Lag,
			Number: r.Number,
			Role:   r.Role,
			Lost:   r.Lost,
			Known:  r.Known,
		})
	}
	return m
}

func count32(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
