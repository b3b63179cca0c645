package node

import (
	"slices"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/raftfsm"
)

// ownsOf is the number of shards that a node owns.
func ownsOf(s *stintv1.StatusResponse, id string) int {
	for _, n := range s.Nodes {
		if n.Id == id {
			return int(n.Owns)
		}
	}
	return -1
}

// atRest reports whether every group has an owner and the given number of voters, and nothing moves.
func atRest(voters int) func(*stintv1.StatusResponse) bool {
	return func(s *stintv1.StatusResponse) bool {
		for _, one := range s.Shards {
			if len(one.Replicas) != voters || one.Owner == "" {
				return false
			}
			for _, r := range one.Replicas {
				if r.Role != "voter" || r.Lost || !r.Known {
					return false
				}
			}
		}
		return len(s.Moves) == 0
	}
}

// A drain that was asked for until the restart lasts as long as the process, and no longer.
func TestADrainEndsWithTheRestart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		state := func(want string) func(*stintv1.StatusResponse) bool {
			return func(s *stintv1.StatusResponse) bool { return s.Nodes[1].State == want }
		}
		for _, forGood := range []bool{false, true} {
			if _, err := c.nodes[2].admin.Drain(t.Context(), "n2", true, true); err != nil {
				t.Fatal(err)
			}
			c.await("n2 owns nothing", func(s *stintv1.StatusResponse) bool {
				return state("draining")(s) && ownsOf(s, "n2") == 0
			})
			if forGood {
				if _, err := c.nodes[2].admin.Drain(t.Context(), "n2", true, false); err != nil {
					t.Fatal(err)
				}
			}
			c.await("it goes on", func(s *stintv1.StatusResponse) bool { return atRest(3)(s) && state("draining")(s) })
			c.stop(1)
			if _, err := c.nodes[2].admin.Drain(t.Context(), "n4", true, true); err == nil {
				t.Error("a node that does not answer is drained until it is restarted")
			}
			c.start(1)
			c.ready(1)
			if forGood {
				c.await("it is here again, and drained", func(s *stintv1.StatusResponse) bool {
					return atRest(3)(s) && state("draining")(s)
				})
				continue
			}
			c.await("n2 leads again", func(s *stintv1.StatusResponse) bool {
				return state("active")(s) && ownsOf(s, "n2") > 0
			})
		}
	})
}

func TestADrainedNodeLeadsNothingUntilItIsUndone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		crowd := newCrowd(t, c, 0, 1, 2)
		leads := func(s *stintv1.StatusResponse) bool { return ownsOf(s, "n2") > 0 }
		c.await("n2 leads", leads)
		if _, err := c.nodes[2].admin.Drain(t.Context(), "n2", true, false); err != nil {
			t.Fatal(err)
		}
		c.await("n2 leads nothing", func(s *stintv1.StatusResponse) bool {
			return ownsOf(s, "n2") == 0 && ownsOf(s, "n1")+ownsOf(s, "n3") == len(s.Shards) &&
				s.Nodes[1].State == "draining"
		})
		for _, r := range c.nodes[1].replicas.all() {
			if r.group.Leading() {
				t.Errorf("n2 leads shard %s", r.Shard)
			}
		}
		if _, err := c.nodes[1].admin.Drain(t.Context(), "", false, false); err != nil {
			t.Fatal(err)
		}
		c.await("n2 leads again", leads)
		crowd.goesHome(1)
	})
}

// A node that comes back under its id with an empty disk must not vote, because it no longer remembers its votes.
func TestAWipedNodeIsSeededAgainUnderNewNumbers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		crowd := newCrowd(t, c, 0, 1)
		before := c.numbers("n3")
		if len(before) != 5 {
			t.Fatalf("n3 has replicas %v, want 5", before)
		}
		c.stop(2)
		if err := c.configs[2].World.FS.RemoveAll(c.configs[2].DataDir); err != nil {
			t.Fatal(err)
		}
		c.start(2)
		c.await("n3 has five new replicas", func(s *stintv1.StatusResponse) bool {
			now := c.numbers("n3")
			return atRest(3)(s) && len(now) == 5 &&
				!slices.ContainsFunc(now, func(n uint64) bool { return slices.Contains(before, n) })
		})
		if c.journal.says("n3", "this node has lost a replica") == 0 {
			t.Error("nobody said that replicas are lost")
		}
		c.ready(2)
		crowd.goesHome(2)
		c.stop(0) // now the wiped node is needed for every majority
		crowd.recount(1)
		crowd.recount(2)
	})
}

// numbers lists the numbers of a node's replicas, by the first node's table.
func (c *trio) numbers(node string) (numbers []uint64) {
	for _, g := range c.nodes[0].view.newestTable().Groups {
		for _, r := range g.Replicas {
			if r.Node == node {
				numbers = append(numbers, r.Number)
			}
		}
	}
	return numbers
}

// listed lists the replicas of a node by its own table.
func listed(n *Node) (all []raftfsm.Replica) {
	for _, g := range n.view.newestTable().Groups {
		for _, r := range g.Replicas {
			if r.Node == n.id {
				all = append(all, raftfsm.Replica{Shard: g.Shard, Number: r.Number})
			}
		}
	}
	return all
}
