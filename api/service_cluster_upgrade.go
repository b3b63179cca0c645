package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

func (s clusterService) upgradeStatus(
	ctx context.Context, _ *stintv1.UpgradeStatusRequest,
) (*stintv1.UpgradeStatusResponse, error) {
	status, err := s.cluster.Upgrade(ctx)
	return upgradeOf(&status), err
}

func (s clusterService) pinLevel(ctx context.Context, m *stintv1.PinLevelRequest) (*stintv1.PinLevelResponse, error) {
	return &stintv1.PinLevelResponse{}, s.cluster.PinLevel(ctx, shard.Level(m.Level))
}

func (s clusterService) finishUpgrade(
	ctx context.Context, _ *stintv1.FinishUpgradeRequest,
) (*stintv1.FinishUpgradeResponse, error) {
	level, err := s.cluster.FinishUpgrade(ctx)
	return &stintv1.FinishUpgradeResponse{Level: uint32(level)}, err
}

// upgradeOf translates the feature levels into a message.
func upgradeOf(s *UpgradeStatus) *stintv1.UpgradeStatusResponse {
	m := &stintv1.UpgradeStatusResponse{
		Level:      uint32(s.Level),
		RisingTo:   uint32(s.RisingTo),
		Pinned:     uint32(s.Pinned),
		KnownByAll: uint32(s.KnownByAll),
		KnownSince: momentOf(s.KnownSince),
		RisesAt:    momentOf(s.RisesAt),
	}
	for _, n := range s.Nodes {
		m.Nodes = append(m.Nodes, &stintv1.NodeLevels{
			Id:      n.ID,
			Version: n.Version,
			Min:     uint32(n.Min),
			Max:     uint32(n.Max),
			Kept:    uint32(n.Kept),
			Alive:   n.Alive,
		})
	}
	return m
}

// momentOf returns nil for the zero time.
func momentOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
