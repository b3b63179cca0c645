package node

import "testing"

// The other nodes hear that a node stops, and do not take it for dead.
func TestAStoppingNodeSaysGoodbye(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		for _, stopping := range []bool{false, true} {
			c.nodes[0].stopping.Store(stopping)
			if q := c.nodes[0].reporter.question(); q.Stopping != stopping || q.Life == "" {
				t.Errorf("stopping: %v, and it asks %+v", stopping, q)
			}
		}
	})
}
