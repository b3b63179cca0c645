package node

import (
	"slices"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/raftfsm"
)

// A node becomes the leader of a group, or is about to create a replica, and knows only a table that is older than the
// one by which its predecessor may have acted, or the node itself before it lost its disk. It reads the newest table
// first.
func TestNobodyActsOnAnOldTable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		var n *Node
		var r *replica
		c.await("an owner of the first shard", func(*stintv1.StatusResponse) bool {
			for _, n = range c.nodes {
				if r = n.replicas.of(0); r != nil && r.actor.Open() {
					return true
				}
			}
			return false
		})
		n.cancel() // the test does the reconciler's work, one step at a time
		n.running.Wait()
		n.tasks.wait()
		current := n.view.table.now()
		members := func() []raftfsm.Member {
			t.Helper()
			members, _, err := r.group.Members()
			if err != nil {
				t.Fatal(err)
			}
			return members
		}
		before := members()

		// In the older table a fourth replica was to be added.
		older := *current.value
		older.Groups = slices.Clone(older.Groups)
		for i, g := range older.Groups {
			if g.Shard == 0 {
				older.Groups[i].Replicas = append(slices.Clone(g.Replicas),
					placement.Replica{Node: "n9", Number: 99, Created: true})
			}
		}
		old := &known[placement.Table]{&older, current.version - 1, current.text}
		n.view.table.newest.Store(old)
		r.alignedEpoch = 0
		n.reconciler.aligner.align(t.Context(), r)
		if got := members(); !slices.Equal(got, before) {
			t.Errorf("the group has members %v, of which an old table knows", got)
		}
		if n.view.table.now().version != current.version {
			t.Error("the newest table was not read")
		}

		// The same for a replica of this node, including when this process has not yet read the table.
		n.view.table.newest.Store(old)
		which := raftfsm.Replica{Shard: 0, Number: 98}
		for _, read := range []uint64{0, current.version} {
			n.reconciler.current.Store(read)
			if err := n.reconciler.act(t.Context(), placement.Action{Kind: placement.Create, Shard: 0, Number: 98},
				which); err != nil {
				t.Error(err)
			}
			if slices.Contains(n.dir.stores.Groups(), which) {
				t.Error("a replica was made by a table from before this process")
			}
		}
	})
}
