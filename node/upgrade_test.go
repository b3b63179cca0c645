package node

import (
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// levelsOf is the upgrade status of node i.
func (c *trio) levelsOf(i int) *stintv1.UpgradeStatusResponse {
	c.t.Helper()
	s, err := c.nodes[i].admin.Upgrade(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *trio) awaitLevels(what string, i int, is func(*stintv1.UpgradeStatusResponse) bool) {
	c.t.Helper()
	var s *stintv1.UpgradeStatusResponse
	await.Until(c.t, what, func() bool { s = c.levelsOf(i); return is(s) }, &s)
}

func TestANewClusterIsAtTheNewestLevel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		for i := range 3 {
			c.awaitLevels("the cluster is at the newest level", i, func(s *stintv1.UpgradeStatusResponse) bool {
				return s.Level == uint32(shard.LevelNewest) && s.RisingTo == 0 && s.KnownByAll == s.Level
			})
			if got := c.nodes[i].dir.stores.Level(); got != shard.LevelNewest {
				t.Errorf("node %d: its directory is at level %d", i+1, got)
			}
		}
		single := start(t, testConfig(t))
		defer stop(t, single)
		if single.view.level() != shard.LevelNewest {
			t.Errorf("a lone node is at level %d", single.view.level())
		}
	})
}
