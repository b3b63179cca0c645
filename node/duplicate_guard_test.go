package node

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
)

// stopsAsSecond waits until a node stops because its id is another one's, and returns the reason.
func (c *trio) stopsAsSecond(i int) error {
	c.t.Helper()
	select {
	case err := <-c.nodes[i].Done():
		if !errors.Is(err, ErrTwice) {
			c.t.Errorf("it stopped with %v", err)
		}
		return err
	case <-time.After(time.Minute):
		c.t.Fatal("the second process runs on")
	}
	return nil
}

// allNumbers are the replica numbers of all shards, in the order of the status.
func (c *trio) allNumbers() (all []uint64) {
	c.t.Helper()
	s, err := c.nodes[1].admin.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, one := range s.Shards {
		for _, r := range one.Replicas {
			all = append(all, r.Number)
		}
	}
	return all
}

// A process with an empty directory and the id of a node that answers stops by itself, and says where the other one is.
// Nothing is rebuilt, and the status names the cause.
func TestASecondProcessUnderAnIDStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		c.await("nothing moves", func(s *stintv1.StatusResponse) bool { return len(s.Moves) == 0 && len(s.Problems) == 0 })
		second := c.add("n1")
		c.start(second)
		err := c.stopsAsSecond(second)
		s, _ := c.nodes[1].admin.Status(t.Context())
		if addr := s.Nodes[0].PeerAddr; !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the reason does not say in a sentence that %s has the id: %v", addr, err)
		}
		c.await("the status names the id first", func(s *stintv1.StatusResponse) bool {
			return len(s.Problems) > 0 && strings.HasPrefix(s.Problems[0], "node id n1 is used twice")
		})
		c.stop(second)
		for _, n := range c.allNumbers() {
			if n != 1 {
				t.Fatalf("a replica was rebuilt under the number %d", n)
			}
		}
		await.Until(t, "the problem is over", func() bool {
			s, err := c.nodes[1].admin.Status(t.Context())
			return err == nil && len(s.Problems) == 0
		}, nil)
		for i := range 3 {
			if r := c.spend(i, "key"); r.Err != nil || !r.Decision.Allowed {
				t.Errorf("node %d: %+v", i+1, r)
			}
		}
	})
}

// So does one that was started from a copy of the node's directory: its replicas would vote with the memory of the
// copy.
func TestACopyOfADirectoryStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		c.await("nothing moves", func(s *stintv1.StatusResponse) bool { return len(s.Moves) == 0 && len(s.Problems) == 0 })
		second := c.addCopyOfFirst()
		c.start(second)
		c.stopsAsSecond(second)
		if open := c.nodes[second].replicas.all(); len(open) > 0 {
			t.Errorf("it opened %d replicas", len(open))
		}
		c.stop(second)
		for _, n := range c.allNumbers() {
			if n != 1 {
				t.Fatalf("a replica was rebuilt under the number %d", n)
			}
		}
	})
}

// addCopyOfFirst describes a node that is started from a copy of the first one's directory.
func (c *trio) addCopyOfFirst() (index int) {
	c.t.Helper()
	c.stop(0)
	copied := memfs.NewDisk(memfs.Copy(memoryOf(c.t).disk))
	c.start(0)
	c.ready(0)
	first := c.nodes[0].ports.peers.Addr().String()
	await.Until(c.t, "the table has the first one", func() bool {
		s, err := c.nodes[1].admin.Status(c.t.Context())
		return err == nil && s.Nodes[0].PeerAddr == first
	}, nil)
	i := c.add("n1")
	c.configs[i].DataDir, c.configs[i].World.FS = c.configs[0].DataDir, copied
	return i
}

// A second process that cannot reach the first one hears from the others that they do. It opens no replica, and stops
// when it can.
func TestASecondProcessThatCannotReachTheFirstWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		c.await("nothing moves", func(s *stintv1.StatusResponse) bool { return len(s.Moves) == 0 && len(s.Problems) == 0 })
		second := c.addCopyOfFirst()
		first, dial := c.nodes[0].ports.peers.Addr().String(), c.configs[second].World.Dial
		var reached atomic.Bool
		var tries atomic.Int64
		c.configs[second].World.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if addr == first && !reached.Load() {
				tries.Add(1)
				return nil, errors.New("no way")
			}
			return dial(ctx, addr)
		}
		c.start(second)
		c.await("it tries again, since it is told", func(s *stintv1.StatusResponse) bool {
			return len(s.Problems) > 0 && tries.Load() > 5
		})
		reached.Store(true)
		c.stopsAsSecond(second)
		if open := c.nodes[second].replicas.all(); len(open) > 0 {
			t.Errorf("it opened %d replicas", len(open))
		}
	})
}

// A copy needs no other node to find the process that its table has.
func TestACopyStopsThoughNoOtherNodeAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		c.configs[0].PeerAddr = freeAddr(t) // the same after a restart: the copy has it
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		c.await("nothing moves", func(s *stintv1.StatusResponse) bool { return len(s.Moves) == 0 && len(s.Problems) == 0 })
		second := c.addCopyOfFirst()
		c.configs[second].PeerAddr = freeAddr(t)
		c.stop(1, 2)
		c.start(second)
		c.stopsAsSecond(second)
	})
}

func TestOnlyTheListedProcessRecordsFacts(t *testing.T) {
	h := &duplicateGuard{node: "n1", peers: &peers{node: "n1",
		gossip: newSoloMembership(gossip.Member{Node: "n1", PeerAddr: "first:1"})}}
	for addr, may := range map[string]bool{"first:1": true, "second:1": false} {
		if got := h.records(&placement.Table{Nodes: []placement.Node{{ID: "n1", PeerAddr: addr}}}); got != may {
			t.Errorf("listed at %s: %v", addr, got)
		}
	}
	if h.records(&placement.Table{}) {
		t.Error("it is not listed")
	}
}

// A process that does not know yet whether it is its node waits for the newest table that it has heard of: no process
// may answer where an older table has the node. One that knows goes on while a newer table is on its way.
func TestAProcessBeginsWithTheNewestTableOnly(t *testing.T) {
	h := &duplicateGuard{node: "n1", peers: &peers{node: "n1",
		gossip: newSoloMembership(gossip.Member{Node: "n1", PeerAddr: "second:1"})}}
	h.checked.Store(new("first:1"))
	table := known[placement.Table]{value: &placement.Table{Nodes: []placement.Node{{ID: "n1", PeerAddr: "first:1"}}},
		version: 7}
	for _, c := range []struct {
		theirs        uint64
		settled, sole bool
	}{
		{theirs: 6, sole: true}, {theirs: 7, sole: true}, {theirs: 8}, {theirs: 8, settled: true, sole: true},
	} {
		h.settled.Store(c.settled)
		reports := map[string]placement.Report{"n2": {TableVersion: 7}, "n3": {TableVersion: c.theirs}}
		if got := h.isSoleBy(table, "first:1", reports); got != c.sole {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A node that was cut off together with a process that was replaced hears that one. The successor does not give way,
// because it is in the table; a process that knows an older table does.
func TestASuccessorDoesNotYield(t *testing.T) {
	h := &duplicateGuard{node: "n1", peers: &peers{node: "n1",
		gossip: newSoloMembership(gossip.Member{Node: "n1", PeerAddr: "second:1"})}}
	for _, c := range []struct {
		listed, taken string
		theirs        uint64
		yields        bool
	}{
		{"first:1", "first:1", 7, true},
		{"second:1", "first:1", 7, false},
		{"second:1", "first:1", 6, false},
		{"second:1", "first:1", 8, true},
		{"first:1", "", 7, false},
	} {
		nodes := []placement.Node{{ID: "n1", PeerAddr: c.listed}}
		table := known[placement.Table]{value: &placement.Table{Nodes: nodes}, version: 7}
		if got := h.yields(table, &placement.Report{Taken: c.taken, TableVersion: c.theirs}); got != c.yields {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
