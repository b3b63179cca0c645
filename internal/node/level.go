package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// knownLevels is a version of the levels, with their text as peers receive it.
type knownLevels struct {
	*placement.Levels
	version uint64
	text    []byte
}

const recordLevels = "levels"

// levelsKnown returns the newest levels known; while none are known, those of 0.1.0, with version 0.
func (k *clusterView) levelsKnown() knownLevels {
	if l := k.levels.Load(); l != nil {
		return *l
	}
	return knownLevels{Levels: placement.FirstLevels()}
}

// level is the cluster's feature level, as far as this node knows: it may have risen since, but never falls.
func (n *Node) level() shard.Level { return n.known.levelsKnown().Cluster }

// newestLevel is the newest level that this node's binary knows.
func (n *Node) newestLevel() shard.Level { return cmp.Or(n.config.World.Newest, shard.LevelNewest) }

// ownLevels is what this node reports of its own levels.
func (n *Node) ownLevels() *placement.NodeLevels {
	return &placement.NodeLevels{Min: shard.LevelFirst, Max: n.newestLevel(), Kept: n.stores.Level()}
}

// learnLevels takes levels that are newer than the known ones. The data directory records the level before the node reports
// it, and before anything is written at that level.
func (n *Node) learnLevels(d shard.Document) {
	defer n.known.takeTurn()()
	if d.Version <= n.known.levelsKnown().version {
		return
	}
	levels, err := placement.DecodeLevels(d.Body)
	if err != nil {
		n.config.Logger.Error("the cluster's feature levels cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := n.checkLevels(levels); err != nil {
		n.fail(err)
		return
	}
	if err := n.stores.Raise(levels.Written(), n.config.Version); err != nil {
		n.fail(diskError(err))
		return
	}
	if err := n.stores.PutRecord(recordLevels, documentRecord{d.Version, d.Body}); err != nil {
		n.fail(diskError(err))
		return
	}
	if before := n.level(); levels.Cluster > before && before > 0 {
		n.config.Logger.Info("the cluster is at another feature level", "level", levels.Cluster, "before", before)
	}
	n.known.levels.Store(&knownLevels{levels, d.Version, d.Body})
	n.hintActors()
}

// checkLevels refuses a cluster that writes what this binary cannot read.
func (n *Node) checkLevels(l *placement.Levels) error {
	if written := l.Written(); written > n.newestLevel() {
		return fmt.Errorf("the cluster is at level %d, this binary knows %d: start %s or newer", written, n.newestLevel(),
			cmp.Or(l.Release, "the release that it was brought there with"))
	}
	return nil
}

// readKeptLevels restores what this node wrote down before.
func (n *Node) readKeptLevels() error {
	var kept documentRecord
	found, err := n.stores.ReadRecord(recordLevels, &kept)
	if err != nil || !found {
		return diskError(err)
	}
	levels, err := placement.DecodeLevels(kept.Text)
	if err != nil {
		return fmt.Errorf("the feature levels kept in the data directory: %w", err)
	}
	if err := n.checkLevels(levels); err != nil {
		return err
	}
	n.known.levels.Store(&knownLevels{levels, kept.Version, kept.Text})
	return nil
}

// planLevels changes the levels to what they should be. The table is fenced before a rise ends: a planner with an older
// table, unaware of the rise, can then no longer replace it.
func (n *Node) planLevels(ctx context.Context, seen placement.Observed) (steps []string, err error) {
	written := n.known.levelsKnown().Written()
	if written > shard.LevelFirst {
		err = n.changeTable(ctx, func(t *placement.Table) *placement.Table { return t.ApplyLevel(written) })
		if err != nil {
			return nil, err
		}
	}
	err = n.changeLevels(ctx, func(l *placement.Levels) (next *placement.Levels, _ error) {
		next, steps = placement.PlanLevels(n.known.newest().Table, l, seen, n.config.World.Now(), n.config.Version)
		return next, nil
	})
	return steps, err
}

// changeLevels replaces the newest version of the levels by change's result; a nil result changes nothing.
func (n *Node) changeLevels(ctx context.Context, change func(*placement.Levels) (*placement.Levels, error)) error {
	return n.changeDocument(ctx, placement.LevelsDocument, n.learnLevels, func() (version uint64, text []byte, err error) {
		known := n.known.levelsKnown()
		next, err := change(known.Levels)
		if err != nil || next == nil {
			return 0, nil, err
		}
		return known.version, next.Encode(), nil
	})
}
