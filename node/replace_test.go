package node

import (
	"slices"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/raftfsm"
)

// The dead node's replicas are rebuilt on a fourth; it comes back to a cluster that does not want its old ones.
func TestANodeThatIsGoneForLongIsReplacedAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 4)
		for i := range c.configs {
			c.configs[i].ReplaceAfter = 3 * time.Second
		}
		for i := range 3 {
			c.start(i)
		}
		c.ready(0, 1, 2)
		crowd := newCrowd(t, c, 0, 1)
		c.start(c.add("n4"))
		c.ready(3)
		c.await("n4 has replicas", func(s *stintv1.StatusResponse) bool { return atRest(3)(s) && len(c.numbers("n4")) > 0 })
		crowd.include(3)
		old := c.nodes[2].dir.stores.Groups()
		if len(old) == 0 {
			t.Fatal("n3 has no replica to be replaced")
		}
		c.stop(2)
		c.await("n3 has no replica", func(s *stintv1.StatusResponse) bool {
			return atRest(3)(s) && len(c.numbers("n3")) == 0
		})

		c.start(2)
		c.ready(2)
		crowd.include(2)
		c.await("n3 has what the table says, and nothing of old", func(s *stintv1.StatusResponse) bool {
			held, wanted := c.nodes[2].dir.stores.Groups(), listed(c.nodes[2])
			return atRest(3)(s) && len(held) > 0 && sameReplicas(held, wanted) &&
				!slices.ContainsFunc(held, func(r raftfsm.Replica) bool { return slices.Contains(old, r) })
		})
		crowd.goesHome(2)
	})
}

func sameReplicas(a, b []raftfsm.Replica) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(r raftfsm.Replica) bool { return !slices.Contains(b, r) })
}
