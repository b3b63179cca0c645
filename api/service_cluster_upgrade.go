package api

import (
	"context"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

func (s clusterService) upgradeStatus(
	ctx context.Context, _ *stintv1.UpgradeStatusRequest,
) (*stintv1.UpgradeStatusResponse, error) {
	return s.cluster.Upgrade(ctx)
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
