//go:build nextlevel

package node

import (
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// runs restarts a node with a binary that knows the levels up to newest, while the crowd asks the others.
func (w *crowd) runs(i int, newest shard.Level) {
	w.t.Helper()
	w.avoid(i)
	w.c.stop(i)
	w.c.configs[i].World.Newest = newest
	w.c.start(i)
	w.c.ready(i)
	w.include(i)
}

// A cluster of the first level is upgraded node by node, one of them goes back and forth, and then the level is
// finished. From then on the former release is refused: on a node's directory, and on an empty one.
func TestTheLevelRisesWhenTheUpgradeIsFinishedAndThereIsNoWayBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.configs {
			c.configs[i].World.Newest = shard.LevelFirst
			c.start(i)
		}
		c.ready(0, 1, 2)
		crowd := newCrowd(t, c, 0, 1, 2)
		for i, newest := range []shard.Level{shard.LevelNewest, shard.LevelNewest} {
			crowd.runs(i, newest)
		}
		c.awaitLevels("two nodes know the next level", 0, func(s *stintv1.UpgradeStatusResponse) bool {
			return len(s.Nodes) == 3 && s.Nodes[0].Max == 2 && s.Nodes[1].Max == 2
		})
		if _, err := c.nodes[0].admin.FinishUpgrade(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "n3 (release unknown) knows 1") {
			t.Errorf("finished although one node is old: %v", err)
		}
		crowd.runs(1, shard.LevelFirst) // back to the older level
		crowd.runs(1, shard.LevelNewest)
		crowd.runs(2, shard.LevelNewest)
		c.awaitLevels("all know the level", 0, func(s *stintv1.UpgradeStatusResponse) bool {
			return s.KnownByAll == 2 && s.RisesAt != nil
		})
		if s := c.levelsOf(0); s.Level != uint32(shard.LevelFirst) {
			t.Errorf("the level has risen by itself: %+v", s)
		}
		if level, err := c.nodes[2].admin.FinishUpgrade(t.Context()); err != nil || level != shard.LevelNewest {
			t.Fatalf("finish: level %d, %v", level, err)
		}
		for i := range 3 {
			c.awaitLevels("the level has risen", i, func(s *stintv1.UpgradeStatusResponse) bool {
				return s.Level == uint32(shard.LevelNewest)
			})
			if kept := c.nodes[i].dir.stores.Level(); kept != shard.LevelNewest ||
				c.nodes[i].view.newestTable().Level != shard.LevelNewest {
				t.Errorf("node %d: its directory carries level %d, its table admits %d",
					i+1, kept, c.nodes[i].view.newestTable().Level)
			}
		}
		crowd.goesHome(1)

		// A node that is not a member knows the table and may write it, when it is asked to drain a node: it drops the
		// fields that it does not know. It does not touch the levels, and the fence comes back.
		err := c.nodes[0].view.changeTable(t.Context(), func(table *placement.Table) *placement.Table {
			if table.Level == 0 {
				return nil
			}
			next := table.Clone()
			next.Level = 0
			return next
		})
		if err != nil {
			t.Fatal(err)
		}
		c.await("the table is fenced again", func(*stintv1.StatusResponse) bool {
			return c.nodes[0].view.newestTable().Level == shard.LevelNewest &&
				c.nodes[0].view.level() == shard.LevelNewest
		})

		c.stop(1)
		c.configs[1].World.Newest = shard.LevelFirst
		if n, err := Start(t.Context(), c.configs[1]); err == nil {
			c.nodes[1] = n
			t.Error("the former release starts on the directory of the new one")
		} else if !strings.Contains(err.Error(), "written at level 2, this binary knows 1: start") {
			t.Errorf("the former release says %v", err)
		}
		c.configs[1].World.Newest = shard.LevelNewest
		c.start(1)
		c.ready(1)
		if got := c.nodes[1].view.level(); got != shard.LevelNewest {
			t.Errorf("after a restart the node thinks that the cluster is at level %d", got)
		}

		stranger := c.add("n4")
		c.configs[stranger].World.Newest = shard.LevelFirst
		c.start(stranger)
		err = await.Receive(t, "a node of the former release does not join", c.nodes[stranger].Done())
		if err == nil || !strings.Contains(err.Error(), "the cluster is at level 2, this binary knows 1: start") {
			t.Errorf("a node of the former release that joins says %v", err)
		}
		if c.nodes[0].view.newestTable().Node("n4") != nil {
			t.Error("it is registered")
		}
	})
}
