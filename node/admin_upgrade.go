package node

import (
	"context"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Upgrade implements api.ClusterAdmin.
func (a *admin) Upgrade(context.Context) (api.UpgradeStatus, error) {
	table, levels := a.view.newestTable(), a.view.newestLevels()
	if !a.view.hasTable() || !a.peers.hasJoined() {
		return api.UpgradeStatus{}, errNoTable
	}
	s := api.UpgradeStatus{Level: levels.Cluster, RisingTo: levels.Next, Pinned: levels.Pin}
	reports := a.reporter.reports()
	heard := placement.Levels{Nodes: levels.Heard(table, reports)}
	for _, listed := range table.Listed() {
		known, _ := heard.Node(listed.ID)
		_, alive := reports[listed.ID]
		s.Nodes = append(s.Nodes, api.NodeLevels{ID: listed.ID, Version: listed.Version, Min: known.Min, Max: known.Max,
			Kept: known.Kept, Alive: alive})
		if s.KnownByAll == 0 || known.Max < s.KnownByAll {
			s.KnownByAll = known.Max
		}
	}
	if levels.Since != 0 {
		s.KnownSince = time.UnixMicro(levels.Since)
		s.RisesAt = levels.RisesAt()
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
