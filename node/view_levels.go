package node

import (
	"cmp"
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

// newestLevels returns the newest levels known; while none are known, the first ones, with version 0.
func (v *clusterView) newestLevels() knownLevels {
	if l := v.levels.Load(); l != nil {
		return *l
	}
	return knownLevels{Levels: placement.FirstLevels()}
}

// level is the cluster's feature level, as far as this node knows: it may have risen since, but never falls.
func (v *clusterView) level() shard.Level { return v.newestLevels().Cluster }

// ownLevels is what this node reports of its own levels.
func (v *clusterView) ownLevels() placement.NodeLevels {
	return placement.NodeLevels{Min: shard.LevelFirst, Max: v.binaryLevel, Kept: v.dir.stores.Level()}
}

// learnLevels takes levels that are newer than the known ones. The data directory records the level before the node reports
// it, and before anything is written at that level.
func (v *clusterView) learnLevels(d shard.Document) {
	defer v.learning.take()()
	if d.Version <= v.newestLevels().version {
		return
	}
	levels, err := placement.DecodeLevels(d.Body)
	if err != nil {
		v.logger.Error("the cluster's feature levels cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := v.checkLevels(levels); err != nil {
		v.fail(err)
		return
	}
	if err := v.dir.stores.Raise(levels.Written(), v.release); err != nil {
		v.fail(diskError(err))
		return
	}
	if err := v.dir.keep(recordLevels, documentRecord{d.Version, d.Body}); err != nil {
		v.fail(err)
		return
	}
	if before := v.level(); levels.Cluster > before && before > 0 {
		v.logger.Info("the cluster is at another feature level", "level", levels.Cluster, "before", before)
	}
	v.levels.Store(&knownLevels{levels, d.Version, d.Body})
	v.onRulesChanged()
}

// checkLevels refuses a cluster that writes what this binary cannot read.
func (v *clusterView) checkLevels(l *placement.Levels) error {
	return v.checkWritten(l.Written(), l.Release)
}

func (v *clusterView) checkWritten(written shard.Level, release string) error {
	if written > v.binaryLevel {
		return fmt.Errorf("the cluster is at level %d, this binary knows %d: start %s or newer", written, v.binaryLevel,
			cmp.Or(release, "the release that it was brought there with"))
	}
	return nil
}

// readKeptLevels restores the levels that this node wrote down before.
func (v *clusterView) readKeptLevels() error {
	var kept documentRecord
	found, err := v.dir.read(recordLevels, &kept)
	if err != nil || !found {
		return err
	}
	levels, err := placement.DecodeLevels(kept.Text)
	if err != nil {
		return fmt.Errorf("the feature levels kept in the data directory: %w", err)
	}
	if err := v.checkLevels(levels); err != nil {
		return err
	}
	v.levels.Store(&knownLevels{levels, kept.Version, kept.Text})
	return nil
}
