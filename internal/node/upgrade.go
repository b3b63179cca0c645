package node

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Upgrade implements api.ClusterAdmin.
func (a admin) Upgrade(context.Context) (api.UpgradeStatus, error) {
	n := a.n
	table, levels := n.known.newest().Table, n.known.levelsKnown().Levels
	if table == nil || !n.hasJoined() {
		return api.UpgradeStatus{}, errNoTable
	}
	s := api.UpgradeStatus{Level: levels.Cluster, RisingTo: levels.Next, Pinned: levels.Pin}
	reports := n.reports()
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
func (a admin) PinLevel(ctx context.Context, level shard.Level) error {
	return a.changeLevels(ctx, func(t *placement.Table, l *placement.Levels) (*placement.Levels, error) {
		return l.ApplyPin(level)
	})
}

// FinishUpgrade implements api.ClusterAdmin.
func (a admin) FinishUpgrade(ctx context.Context) (level shard.Level, err error) {
	err = a.changeLevels(ctx, func(t *placement.Table, l *placement.Levels) (next *placement.Levels, err error) {
		next, level, err = l.ApplyFinish(t, a.n.reports(), a.n.newestLevel())
		return next, err
	})
	return level, err
}

// changeLevels reads the table and the levels first: by old ones, this node might refuse a permitted change.
func (a admin) changeLevels(ctx context.Context, change func(*placement.Table, *placement.Levels) (*placement.Levels, error)) error {
	if a.n.known.newest().Table == nil {
		return errNoTable
	}
	if err := a.n.readTable(ctx); err != nil {
		return err
	}
	levels, err := a.n.fetch(ctx, placement.LevelsDocument)
	if err != nil {
		return err
	}
	a.n.learnLevels(levels)
	var refused error
	err = a.n.changeLevels(ctx, func(l *placement.Levels) (*placement.Levels, error) {
		var next *placement.Levels
		next, refused = change(a.n.known.newest().Table, l)
		return next, nil
	})
	if err == nil && refused != nil {
		return &shard.Error{Code: shard.Conflict, Field: "level", Message: refused.Error()}
	}
	a.n.kickOthers()
	return err
}

// strangersTo lists the nodes that answer but cannot read what the cluster writes: they are given no replicas.
func strangersTo(t *placement.Table, reports map[string]placement.Report) (problems []string) {
	for _, report := range reports {
		if levels := report.LevelsOf(); levels.Max < t.Level {
			problems = append(problems, fmt.Sprintf("node %s knows feature level %d and the cluster is at %d: it is given no "+
				"replica until it runs a newer release", report.Node, levels.Max, t.Level))
		}
	}
	return problems
}
