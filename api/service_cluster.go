package api

import (
	"context"
	"log/slog"
	"path"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// nodeBytesMax bounds a node id in a request. The cluster defines the form of ids.
const nodeBytesMax = 256

// clusterService answers stint.v1.ClusterService.
type clusterService struct {
	cluster ClusterAdmin // nil at an edge, which passes on all calls but Backup
	gate    *gatekeeper
	logger  *slog.Logger
}

func (s clusterService) register(d *registry) {
	unary(d, auth.NoOp, stintv1connect.ClusterServiceStatusProcedure, s.status, readOnly)
	changeCluster(d, s.logger, stintv1connect.ClusterServiceDrainProcedure, s.drain)
	changeCluster(d, s.logger, stintv1connect.ClusterServiceRemoveNodeProcedure, s.removeNode)
	changeCluster(d, s.logger, stintv1connect.ClusterServiceSetShardsProcedure, s.setShards)
	unary(d, auth.Observe, stintv1connect.ClusterServiceUpgradeStatusProcedure, s.upgradeStatus, readOnly)
	changeCluster(d, s.logger, stintv1connect.ClusterServicePinLevelProcedure, s.pinLevel)
	changeCluster(d, s.logger, stintv1connect.ClusterServiceFinishUpgradeProcedure, s.finishUpgrade)
	unary(d, auth.Backup, stintv1connect.ClusterServiceRecordBackupProcedure, s.recordBackup)
	procedure := stintv1connect.ClusterServiceBackupProcedure
	backup := streamer[stintv1.BackupRequest, stintv1.BackupChunk, *stintv1.BackupRequest](s.backup)
	d.handle(auth.Backup, procedure, connect.NewServerStreamHandler(procedure, backup.connect, codecs, gzipped))
}

// changeCluster registers a change of nodes, shards or levels. Their documents remember no actor, as the nodes change
// them too, so the log has it.
func changeCluster[Req, Res any, P pointer[Req]](d *registry, logger *slog.Logger, procedure string,
	answer func(context.Context, P) (*Res, error)) {
	change(d, auth.Cluster, procedure, func(ctx context.Context, who string, m P) (*Res, error) {
		response, err := answer(ctx, m)
		if err == nil {
			request, _ := wire.MarshalJSON(nil, m) // what was read can be written
			logger.Info("the cluster was changed by hand", "call", path.Base(procedure), "request", string(request),
				"actor", who)
		}
		return response, err
	})
}

var errNoCluster = &shard.Error{Code: shard.Unavailable, Message: "this node does not know its cluster yet; ask again"}

func (s clusterService) status(ctx context.Context, _ *stintv1.StatusRequest) (*stintv1.StatusResponse, error) {
	status, err := s.cluster.Status(ctx)
	if err == nil && !callerIn(ctx).May(auth.Observe, auth.Target{}) {
		status = publicStatus(status)
	}
	return status, err
}

// publicStatus returns what every client may know: where the nodes answer, and which of them owns which shard, so that
// a client can ask the owner directly.
func publicStatus(s *stintv1.StatusResponse) *stintv1.StatusResponse {
	known := &stintv1.StatusResponse{ClusterId: s.ClusterId, Partial: true}
	for _, n := range s.Nodes {
		known.Nodes = append(known.Nodes, &stintv1.Node{Id: n.Id, ApiAddr: n.ApiAddr, State: n.State,
			Draining: n.Draining, Alive: n.Alive, Silent: &durationpb.Duration{}, ClockAhead: &durationpb.Duration{}})
	}
	for _, d := range s.Shards {
		known.Shards = append(known.Shards, &stintv1.Shard{Id: d.Id, Name: d.Name, Owner: d.Owner, Slots: d.Slots})
	}
	return known
}

func (s clusterService) drain(ctx context.Context, m *stintv1.DrainRequest) (*stintv1.DrainResponse, error) {
	if err := invalid("node_id", optional(m.NodeId, nodeProblem)); err != nil {
		return nil, err
	}
	if m.Off && m.UntilRestart {
		return nil, shard.Invalidf("until_restart", "is not for a drain that ends now (off)")
	}
	left, err := s.cluster.Drain(ctx, m.NodeId, !m.Off, m.UntilRestart)
	return &stintv1.DrainResponse{ShardsLeft: uint32(left)}, err
}

func (s clusterService) removeNode(ctx context.Context, m *stintv1.RemoveNodeRequest) (
	*stintv1.RemoveNodeResponse, error) {
	if err := invalid("node_id", nodeProblem(m.NodeId)); err != nil {
		return nil, err
	}
	return &stintv1.RemoveNodeResponse{}, s.cluster.RemoveNode(ctx, m.NodeId)
}

func (s clusterService) setShards(
	ctx context.Context, m *stintv1.SetShardsRequest,
) (*stintv1.SetShardsResponse, error) {
	if m.Shards < 1 || m.Shards > placement.MaxShards {
		return nil, shard.Invalidf("shards", "%d is not between 1 and %d", m.Shards, placement.MaxShards)
	}
	return &stintv1.SetShardsResponse{}, s.cluster.SetShards(ctx, m.Shards, m.ExpectedRevision)
}

func nodeProblem(id string) string {
	if id == "" {
		return "is missing"
	}
	return lengthProblem(id, nodeBytesMax)
}
