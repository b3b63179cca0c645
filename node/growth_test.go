package node

import (
	"errors"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/testing/await"
)

func TestOneNodeGrowsToThreeAndShrinksToOneUnderLoad(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 4)
		c.configs[0].BootstrapExpect, c.configs[0].Join = 1, nil
		c.configs[1].BootstrapExpect, c.configs[2].BootstrapExpect = 1, 1
		c.start(0)
		c.ready(0)
		crowd := newCrowd(t, c, 0)
		c.await("one voter each", atRest(1))
		for i := 1; i < 3; i++ {
			c.start(i)
			c.ready(i)
			crowd.include(i)
		}
		c.await("three voters each", atRest(3))
		for i := 2; i > 0; i-- {
			if err := c.nodes[i-1].admin.RemoveNode(t.Context(), c.configs[i].NodeID); err != nil {
				t.Fatal(err)
			}
			// It stops by itself, with clients, while the others still listen to it.
			if err := await.Receive(t, "it ends", c.nodes[i].Done()); !errors.Is(err, ErrRemoved) {
				t.Errorf("it ends with %v", err)
			}
			crowd.avoid(i)
			ended := time.Now()
			c.stop(i)
			if took := time.Since(ended); took < lameDuckLeft || took > lingerMost {
				t.Errorf("load balancers have %v to see that it goes", took)
			}
			c.await(c.configs[i].NodeID+" is removed", func(s *stintv1.StatusResponse) bool {
				return atRest(1)(s) && s.Nodes[i].State == "removed"
			})
		}
		crowd.goesHome(0)
		if err := c.nodes[0].admin.RemoveNode(t.Context(), "n1"); err == nil {
			t.Error("the last node was removed")
		}
	})
}
