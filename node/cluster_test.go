package node

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// trio is three nodes in one process, on loopback, each on its own disk.
type trio struct {
	t       testing.TB
	configs []Config
	nodes   []*Node // nil: stopped
	journal *journal
}

// newTrio founds a cluster.
func newTrio(t testing.TB, shards ...int) *trio {
	t.Helper()
	c := trioToBe(t, shards...)
	for i := range c.nodes {
		c.start(i)
	}
	c.ready(0, 1, 2)
	return c
}

// trioToBe returns three nodes that are not yet started, so that a test can still change them. Nodes that are added and
// still run when the test ends are stopped too. There are the shards of testConfig, unless the test says how many:
// tests of where replicas are, and of all shards at once, take more.
func trioToBe(t testing.TB, shards ...int) *trio {
	t.Helper()
	c := &trio{t: t, journal: newJournal(t)}
	base := testConfig(t)
	base.Shards = append(shards, base.Shards)[0]
	base.ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key") // the first node to start creates it
	var seeds []string
	for i := range 3 {
		config := base
		config.NodeID = fmt.Sprint("n", i+1)
		config.DataDir = filepath.Join(t.TempDir(), "data")
		config.GossipAddr = freeAddr(t)
		config.BootstrapExpect = 3
		config.Logger = c.journal.of(config.NodeID)
		seeds = append(seeds, config.GossipAddr)
		c.configs = append(c.configs, config)
	}
	for i := range c.configs {
		c.configs[i].Join = seeds
	}
	c.nodes = make([]*Node, 3)
	t.Cleanup(func() {
		var all []int
		for i := range c.nodes {
			all = append(all, i)
		}
		c.stop(all...)
	})
	return c
}

// add describes one more node, which joins the others when it starts.
func (c *trio) add(id string) (index int) {
	c.t.Helper()
	config := c.configs[0]
	config.NodeID, config.DataDir, config.GossipAddr = id, filepath.Join(c.t.TempDir(), "data"), freeAddr(c.t)
	config.BootstrapExpect = 1
	config.Logger = c.journal.of(id)
	c.configs = append(c.configs, config)
	c.nodes = append(c.nodes, nil)
	return len(c.nodes) - 1
}

func (c *trio) start(i int) {
	c.t.Helper()
	n, err := Start(c.t.Context(), c.configs[i])
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
}

func (c *trio) ready(nodes ...int) {
	c.t.Helper()
	ctx, cancel := patient(c.t.Context(), c.configs[0].World, time.Minute)
	defer cancel()
	for _, i := range nodes {
		if err := c.nodes[i].AwaitReady(ctx); err != nil {
			c.t.Fatalf("node %d: %v", i+1, err)
		}
	}
}

func (c *trio) stop(nodes ...int) { c.stopWithin(20*time.Second, nodes...) }

// stopWithin stops nodes, in a bubble at the latest after a while.
func (c *trio) stopWithin(within time.Duration, nodes ...int) {
	each(nodes, func(i int) {
		if c.nodes[i] != nil {
			stopWithin(c.t, c.nodes[i], within)
			c.nodes[i] = nil
		}
	})
}

func (c *trio) spend(i int, key string) shard.Result { return c.ask(i, shard.Check, "stock", key) }

func TestThreeNodesCountAsOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		var admitted atomic.Int64
		var group sync.WaitGroup
		for worker := range 12 {
			group.Go(func() {
				for range 20 {
					r := c.spend(worker%3, "one key")
					if r.Err != nil {
						t.Errorf("node %d: %v", worker%3+1, r.Err)
					} else if r.Decision.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if admitted.Load() != 100 {
			t.Errorf("limit 100, admitted %d of 240", admitted.Load())
		}
	})
}

// Every node is stopped and started again in turn, under load: no request fails, and the count goes on.
func TestARollingRestartFailsNothingAndForgetsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		crowd := newCrowd(t, c, 0, 1, 2)
		for i := range 3 {
			crowd.avoid(i)
			c.stop(i)
			c.start(i)
			c.ready(i)
			crowd.include(i)
		}
		crowd.goesHome(0)
	})
}

// A fourth node gets replicas, and loses them again when it is to be removed.
func TestANodeJoinsAndLeavesWhileTheOthersCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		c.start(c.add("n4"))
		c.ready(3)
		for i := range 4 {
			if r := c.spend(i, "key"); r.Err != nil || !r.Decision.Allowed {
				t.Fatalf("node %d: %+v", i+1, r)
			}
		}
		c.await("the fourth node has replicas and nothing moves", func(s *stintv1.StatusResponse) bool {
			return len(s.Nodes) == 4 && s.Nodes[3].Replicas >= 3 && len(s.Moves) == 0
		})
		if err := c.nodes[0].admin.RemoveNode(t.Context(), "n4"); err != nil {
			t.Fatal(err)
		}
		c.await("the fourth node is removed", func(s *stintv1.StatusResponse) bool {
			return s.Nodes[3].State == "removed" && len(s.Moves) == 0
		})
		for i := range 3 {
			r := c.spend(i, "key")
			if r.Err != nil || !r.Decision.Allowed {
				t.Fatalf("node %d: %+v", i+1, r)
			}
			if used := r.Decision.Limits[0].Used; used != uint64(5+i) {
				t.Errorf("used %d, want %d", used, 5+i)
			}
		}
	})
}

func (c *trio) await(what string, condition func(*stintv1.StatusResponse) bool) {
	c.t.Helper()
	var s *stintv1.StatusResponse
	await.Until(c.t, what, func() (holds bool) {
		var err error
		s, err = c.nodes[0].admin.Status(c.t.Context())
		return err == nil && condition(s)
	}, &s)
}
