package node

import (
	"cmp"
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// newLevelsDocument makes the document of the levels. The data directory records the level before the node reports it,
// and before anything is written at that level.
func (v *clusterView) newLevelsDocument() *document[placement.Levels] {
	return newDocument(documentConfig[placement.Levels]{
		of:     v.documents,
		name:   placement.LevelsDocument,
		what:   "feature levels",
		decode: func(d shard.Document) (*placement.Levels, error) { return placement.DecodeLevels(d.Body) },
		encode: (*placement.Levels).Encode,
		none:   placement.FirstLevels(),
		kept:   true,
		admit: func(l *placement.Levels) error {
			if err := v.checkWritten(l.Written(), l.Release); err != nil {
				return err
			}
			return diskError(v.dir.stores.Raise(l.Written(), v.release))
		},
		learned: func(before, now known[placement.Levels]) {
			if before.value.Cluster < now.value.Cluster {
				v.logger.Info("the cluster is at another feature level", "level", now.value.Cluster,
					"before", before.value.Cluster)
			}
			v.onRulesChanged()
		},
	})
}

// newestLevels returns the newest levels known; while none are known, the first ones.
func (v *clusterView) newestLevels() *placement.Levels { return v.levels.now().value }

// level is the cluster's feature level, as far as this node knows: it may have risen since, but never falls.
func (v *clusterView) level() shard.Level { return v.newestLevels().Cluster }

// ownLevels is what this node reports of its own levels.
func (v *clusterView) ownLevels() placement.NodeLevels {
	return placement.NodeLevels{Min: shard.LevelFirst, Max: v.binaryLevel, Kept: v.dir.stores.Level()}
}

// checkWritten refuses a cluster that writes what this binary cannot read.
func (v *clusterView) checkWritten(written shard.Level, release string) error {
	if written > v.binaryLevel {
		return fmt.Errorf("the cluster is at level %d, this binary knows %d: start %s or newer", written, v.binaryLevel,
			cmp.Or(release, "the release that it was brought there with"))
	}
	return nil
}
