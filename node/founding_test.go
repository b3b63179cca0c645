package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/internal/testing/await"
)

var errInterrupted = errors.New("interrupted by the test")

// interrupted is gossip that fails to announce a formation if fails says so. If told is set, the other nodes hear of it
// all the same.
type interrupted struct {
	Membership
	fails func(gossip.Formation) bool
	told  bool
}

// Announce implements Membership.
func (g interrupted) Announce(f gossip.Formation) error {
	if !g.fails(f) {
		return g.Membership.Announce(f)
	}
	if g.told {
		if err := g.Membership.Announce(f); err != nil {
			return err
		}
	}
	return errInterrupted
}

// The node that founds the cluster stops at each point where it has written something down, before and after the others
// hear of it, and comes back.
func TestAFoundingThatIsInterruptedIsCompleted(t *testing.T) {
	t.Parallel()
	proposal := func(f gossip.Formation) bool { return !f.Go }
	goes := func(f gossip.Formation) bool { return f.Go }
	for _, story := range []struct {
		name  string
		node  int
		fails func(gossip.Formation) bool
		told  bool
	}{
		{"the creator after its proposal is kept", 0, proposal, false},
		{"the creator after its proposal is told", 0, proposal, true},
		{"the creator after go is kept", 0, goes, false},
		{"the creator after go is told", 0, goes, true},
		{"another founder after it has accepted", 1, proposal, true},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				c := trioToBe(t)
				worldGossip := c.configs[story.node].World.Gossip
				c.configs[story.node].World.Gossip = func(config gossip.Config) (Membership, error) {
					g, err := worldGossip(config)
					if err != nil {
						return nil, err
					}
					return interrupted{g, story.fails, story.told}, nil
				}
				for i := range 3 {
					c.start(i)
				}
				if err := await.Receive(t, "the founding gets so far",
					c.nodes[story.node].Done()); !errors.Is(err, errInterrupted) {
					t.Fatal(err)
				}
				if c.nodes[story.node].Ready() == nil {
					t.Fatal("the interrupted node goes on")
				}
				c.stop(story.node)
				c.configs[story.node].World.Gossip = worldGossip
				c.start(story.node)
				c.ready(0, 1, 2)
				c.await("three voters each", atRest(3))
				for i := range 3 {
					if r := c.spend(i, "key"); r.Err != nil || r.Decision.Limits[0].Used != uint64(i+1) {
						t.Errorf("node %d: %+v", i+1, r)
					}
				}
			})
		})
	}
}

// A node that waits for others names them: to stint status, and to probes of its readiness.
func TestANodeWithoutAClusterSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		c.start(0)
		c.start(2)
		want := "this node belongs to no cluster yet: 2 of 3 nodes that found a cluster are here: n1, n3; " +
			"nobody answers at " + c.configs[1].GossipAddr
		var said string
		await.Until(t, "it says what it waits for", func() bool {
			_, err := c.nodes[0].Admin().Status(t.Context())
			said = err.Error() + " / " + c.nodes[2].Ready().Error()
			return strings.Contains(said, want+"; ask again / "+want)
		}, &said)
		c.start(1)
		c.ready(0, 1, 2)
	})
}
