package raftfsm

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/shard"
)

// trio is a group of three nodes in one process.
type trio struct {
	net    *memnet.Net
	dirs   [3]string
	disks  [3]*vfs.MemFS
	worlds [3]*world
	groups [3]*Group
}

func nodeName(i int) string { return fmt.Sprint("n", i+1) }

func newTrio(t *testing.T) *trio {
	t.Helper()
	c := &trio{net: memnet.New()}
	var voters []string
	for i := range c.groups {
		voters = append(voters, lone.Name(nodeName(i)))
	}
	for i := range c.groups {
		c.dirs[i], c.disks[i] = t.TempDir(), vfs.NewMem()
		c.worlds[i] = openWatchedWorld(t, c.dirs[i], c.disks[i], nodeName(i))
		if err := CreateGroup(c.worlds[i].Stores, lone, voters); err != nil {
			t.Fatal(err)
		}
		c.start(t, i)
	}
	return c
}

func (c *trio) start(t *testing.T, i int) {
	t.Helper()
	c.groups[i] = c.worlds[i].openGroup(t, GroupConfig{Replica: lone, Stream: c.net.Listen(lone.Name(nodeName(i)))})
}

func (c *trio) stop(t *testing.T) {
	for i := range c.groups {
		c.groups[i].Shutdown()
		c.worlds[i].close(t)
	}
}

// leader waits until one of the given nodes is leader.
func (c *trio) leader(t *testing.T, among ...int) (leader int) {
	t.Helper()
	await.Until(t, "an election", func() bool {
		for _, i := range among {
			if c.groups[i].Leading() {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

func (c *trio) others(i int) []int { return []int{(i + 1) % 3, (i + 2) % 3} }

// agree waits until all three hold the same state.
func (c *trio) agree(t *testing.T, n int) {
	t.Helper()
	await.Until(t, "agreement", func() bool {
		sums := make(map[uint64]bool)
		for _, g := range c.groups {
			g.View(func(s *shard.State) { sums[s.Sum()] = true })
		}
		return len(sums) == 1
	})
	for _, g := range c.groups {
		mustHold(t, g, n)
	}
}

// The group elects a leader, is back in service within the promised time after losing it, and takes it back.
func TestGroupOfThreeSurvivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		first := c.leader(t, 0, 1, 2)
		old := lead(t, c.groups[first])
		old.mustPut(t, 20)

		c.net.Isolate(lone.Name(nodeName(first)))
		lost := time.Now()
		second := c.leader(t, c.others(first)...)
		o := lead(t, c.groups[second])
		if took := time.Since(lost); took > 4*time.Second {
			t.Errorf("served again after %v", took)
		}
		o.mustPut(t, 40)
		if err := old.put("split", "brain"); err == nil {
			t.Error("the leader that was cut off acknowledged an entry")
		}
		if said := c.worlds[first].lost.n.Load(); said != 1 {
			t.Errorf("the leader that was cut off says %d times why it leads no longer", said)
		}

		c.net.Rejoin(lone.Name(nodeName(first)))
		c.agree(t, 40)
		for _, g := range c.groups {
			if leader := g.Leader(); leader != lone.Name(nodeName(second)) {
				t.Errorf("%s follows %q", g.name, leader)
			}
		}
	})
}

// A node that was down while the log was shortened receives the snapshot and the entries after it.
func TestFollowerFarBehindIsGivenTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		first := c.leader(t, 0, 1, 2)
		behind := c.others(first)[0]
		o := lead(t, c.groups[first])
		o.mustPut(t, 5)
		c.groups[behind].Shutdown()

		const n = trailingEntries + 200
		var last func() (shard.Outcome, error)
		for i := range n {
			last = o.Propose(o.next(key(i), value(i)))
		}
		if _, err := last(); err != nil {
			t.Fatal(err)
		}
		if err := c.groups[first].Snapshot(); err != nil {
			t.Fatal(err)
		}
		o.mustPut(t, 3)
		c.start(t, behind)
		c.agree(t, n)
		if status := c.groups[behind].Status(); status.SnapshotIndex == 0 {
			t.Errorf("it caught up without the snapshot: %+v", status)
		}
		// With a gap below the snapshot and entries above it, the replica starts again.
		c.groups[behind].Shutdown()
		c.start(t, behind)
		c.agree(t, n)
	})
}

func TestGroupOfThreeSurvivesARestartOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		lead(t, c.groups[c.leader(t, 0, 1, 2)]).mustPut(t, 30)
		for i := range c.groups {
			c.groups[i].Shutdown()
			c.worlds[i].close(t)
			c.worlds[i] = openWatchedWorld(t, c.dirs[i], c.disks[i], nodeName(i))
		}
		for i := range c.groups {
			c.start(t, i)
		}
		lead(t, c.groups[c.leader(t, 0, 1, 2)])
		c.agree(t, 30)
	})
}

// A follower is 15 MB behind, in entries of maximum length, and the link carries 2 MB per second: less than raft would
// send in one message within its timeout. The follower catches up nevertheless.
func TestFollowerCatchesUpByANarrowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.narrow = 2 << 20
		f.found(t)
		leader := f.leader(t)
		o := lead(t, f.groups[leader])
		behind := f.others(leader)[0]
		f.net.Isolate(lone.Name(behind))
		long := strings.Repeat("x", shard.MaxEntryBytes-1000)
		for i := range 60 {
			if err := o.put(key(i), long); err != nil {
				t.Fatal(err)
			}
		}
		f.net.Rejoin(lone.Name(behind))
		await.Until(t, "the follower's last entry", func() bool {
			return f.groups[behind].Status().AppliedIndex == f.groups[leader].Status().AppliedIndex
		})
	})
}
