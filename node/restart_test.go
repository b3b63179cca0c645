package node

import (
	"sync"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// stopAll stops all nodes at once: the last one gives up waiting for a successor.
func (c *trio) stopAll() {
	var all []int
	for i := range c.nodes {
		all = append(all, i)
	}
	c.stop(all...)
}

// restartElsewhere stops all nodes and starts them on other ports. The nodes are told only the first one's new gossip
// address.
func (c *trio) restartElsewhere(t *testing.T) {
	t.Helper()
	c.stopAll()
	for i := range c.configs {
		c.configs[i].GossipAddr = freeAddr(t)
		c.configs[i].Join = []string{c.configs[0].GossipAddr}
	}
	c.startAll()
}

// startAll starts all nodes at once.
func (c *trio) startAll() {
	var group sync.WaitGroup
	for i := range c.nodes {
		group.Go(func() {
			n, err := Start(c.t.Context(), c.configs[i])
			if err != nil {
				c.t.Errorf("node %d: %v", i+1, err)
				return
			}
			c.nodes[i] = n
		})
	}
	group.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	c.ready(0, 1, 2)
}

func TestNodesThatMovedFindEachOtherAgainAndKnowTheirCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		crowd := newCrowd(t, c, 0, 1, 2)
		c.await("all is at rest", atRest(3))
		crowd.goesHome(0)

		c.restartElsewhere(t)
		crowd.recount(1)
		c.await("the table knows where the nodes are", func(s *stintv1.StatusResponse) bool {
			for i, n := range c.nodes {
				if s.Nodes[i].ApiAddr != n.APIAddr() ||
					c.nodes[0].view.newestTable().Nodes[i].GossipAddr != c.configs[i].GossipAddr {
					return false
				}
			}
			return true
		})

		// They find each other by the table, without seeds.
		c.stopAll()
		for i := range c.configs {
			c.configs[i].Join, c.configs[i].BootstrapExpect = nil, 0
		}
		c.startAll()
		crowd.recount(2)
	})
}
