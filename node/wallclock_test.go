package node

import (
	"strings"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/shard"
)

// Shard time is the median of three clocks. A node with a wrong clock first loses its shards, and then stops.
func TestANodeWithAWrongClockHandsOverAndWithAVeryWrongOneStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 4)
		clock := bubble.NewClock(0)
		c.configs[1].World.Now = clock.Now
		for i := range 3 {
			c.start(i)
		}
		c.ready(0, 1, 2)
		crowd := newCrowd(t, c, 0, 1, 2)
		c.await("n2 leads, and every shard is led by who should", func(s *stintv1.StatusResponse) bool {
			return ownsOf(s, "n2") > 0 && c.ledAsWanted(s)
		})

		clock.Set(3 * time.Second)
		c.await("n2 owns nothing", func(s *stintv1.StatusResponse) bool { return ownsOf(s, "n2") == 0 })
		if c.journal.says("n2", "handing a shard over") == 0 {
			t.Error("n2 did not say why")
		}
		given := strings.Count(c.journal.String(), "to=n2")
		until := time.Now().Add(5 * time.Second)
		c.await("the time in which a shard could be handed to n2 is over", func(s *stintv1.StatusResponse) bool {
			c.wantClockSeen(s, "n2")
			return time.Now().After(until)
		})

		if strings.Count(c.journal.String(), "to=n2") != given { // it may be elected, and hands over again
			t.Error("a shard was handed to n2, whose clock is ahead")
		}

		crowd.avoid(1)
		clock.Set(20 * time.Second)
		err := await.Receive(t, "n2 stops, with a clock 20 s ahead", c.nodes[1].Done())
		if err == nil || !strings.Contains(err.Error(), "ahead of the other nodes' clocks") {
			t.Errorf("n2 stops because: %v", err)
		}
		c.stop(1)
		c.ready(0, 2)
		crowd.goesHome(2)
		select {
		case err := <-c.nodes[0].Done():
			t.Errorf("n1 stops, too: %v", err)
		case err := <-c.nodes[2].Done():
			t.Errorf("n3 stops, too: %v", err)
		default:
		}
	})
}

// wantClockSeen checks that status shows a node's clock 3 s ahead, and shard time unaffected.
func (c *trio) wantClockSeen(s *stintv1.StatusResponse, id string) {
	c.t.Helper()
	for _, n := range s.Nodes {
		if ahead := n.ClockAhead.AsDuration(); n.Id == id && (ahead-3*time.Second).Abs() > time.Second {
			c.t.Errorf("status says that the clock of %s is %v ahead", id, ahead)
		}
	}
	for _, one := range s.Shards {
		if ahead := time.Until(one.Time.AsTime()); one.Owner != "" && ahead > time.Second {
			c.t.Errorf("shard %s is %v ahead", one.Name, ahead)
		}
	}
}

// ledAsWanted reports whether the wanted node owns every shard, so that nothing is handed over for that reason.
func (c *trio) ledAsWanted(s *stintv1.StatusResponse) bool {
	table := c.nodes[0].view.newestTable()
	for _, one := range s.Shards {
		if one.Owner != table.Group(shard.ID(one.Id)).Lead {
			return false
		}
	}
	return true
}
