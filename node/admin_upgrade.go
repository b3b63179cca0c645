package node

import (
	"context"
	"time"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Upgrade implements api.ClusterAdmin.
func (a *admin) Upgrade(context.Context) (*stintv1.UpgradeStatusResponse, error) {
	table, levels := a.view.newestTable(), a.view.newestLevels()
	if !a.view.hasTable() || !a.peers.hasJoined() {
		return nil, errNoTable
	}
	s := &stintv1.UpgradeStatusResponse{Level: uint32(levels.Cluster), RisingTo: uint32(levels.Next),
		Pinned: uint32(levels.Pin)}
	reports := a.reporter.reports()
	heard := placement.Levels{Nodes: levels.Heard(table, reports)}
	for _, listed := range table.Listed() {
		known, _ := heard.Node(listed.ID)
		_, alive := reports[listed.ID]
		s.Nodes = append(s.Nodes, &stintv1.NodeLevels{Id: listed.ID, Version: listed.Version, Min: uint32(known.Min),
			Max: uint32(known.Max), Kept: uint32(known.Kept), Alive: alive})
		if most := uint32(known.Max); s.KnownByAll == 0 || most < s.KnownByAll {
			s.KnownByAll = most
		}
	}
	if levels.Since != 0 {
		s.KnownSince, s.RisesAt = api.Moment(time.UnixMicro(levels.Since)), api.Moment(levels.RisesAt())
	}
	return s, nil
}

// PinLevel implements api.ClusterAdmin.
func (a *admin) PinLevel(ctx context.Context, level shard.Level) error {
	return a.changeLevels(ctx, func(t *placement.Table, l *placement.Levels) (*placement.Levels, error) {
		return l.ApplyPin(level)
	})
}

// FinishUpgrade implements api.ClusterAdmin.
func (a *admin) FinishUpgrade(ctx context.Context) (level shard.Level, err error) {
	err = a.changeLevels(ctx, func(t *placement.Table, l *placement.Levels) (next *placement.Levels, err error) {
		next, level, err = l.ApplyFinish(t, a.reporter.reports(), a.view.binaryLevel)
		return next, err
	})
	return level, err
}

// changeLevels reads the table and the levels first: by old ones, this node might refuse a permitted change.
func (a *admin) changeLevels(
	ctx context.Context, change func(*placement.Table, *placement.Levels) (*placement.Levels, error),
) error {
	if !a.view.hasTable() {
		return errNoTable
	}
	if _, err := a.view.table.fetch(ctx); err != nil {
		return err
	}
	err := a.view.levels.update(ctx, nil, func(now known[placement.Levels]) (*placement.Levels, error) {
		next, err := change(a.view.newestTable(), now.value)
		if err != nil {
			return nil, &shard.Error{Code: shard.Conflict, Field: "level", Message: err.Error()}
		}
		return next, nil
	})
	a.tellOthers()
	return err
}
