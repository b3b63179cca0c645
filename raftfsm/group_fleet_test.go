package raftfsm

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/shard"
)

// fleet is a group of members that come and go: nodes n1, n2 and so on, each with at most one running replica.
type fleet struct {
	net    *memnet.Net
	dirs   map[string]string
	disks  map[string]FS
	worlds map[string]*world
	groups map[string]*Group // by node
	narrow int               // bytes per second on a connection of a group opened from now on; 0: unlimited
}

// narrow is a stream layer of slow links.
type narrow struct {
	StreamLayer
	rate int
}

func (n narrow) Dial(name string, timeout time.Duration) (net.Conn, error) {
	conn, err := n.StreamLayer.Dial(name, timeout)
	return narrowConn{conn, n.rate}, err
}

type narrowConn struct {
	net.Conn
	rate int
}

func (c narrowConn) Write(b []byte) (sent int, err error) {
	for piece := range slices.Chunk(b, 4<<10) {
		time.Sleep(time.Duration(len(piece)) * time.Second / time.Duration(c.rate))
		n, err := c.Conn.Write(piece)
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func newFleet() *fleet {
	return &fleet{net: memnet.New(), dirs: make(map[string]string), disks: make(map[string]FS),
		worlds: make(map[string]*world), groups: make(map[string]*Group)}
}

// inFleet runs a test in its own synctest bubble, on three nodes that have founded the group and elected a leader.
func inFleet(t *testing.T, run func(t *testing.T, f *fleet, leader string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.found(t)
		run(t, f, f.leader(t))
	})
}

// stop shuts down everything that still runs.
func (f *fleet) stop(t *testing.T) {
	for node := range f.groups {
		f.shutdown(node)
	}
	for node := range f.worlds {
		f.halt(t, node)
	}
}

// node opens the stores of a node. They are fresh the first time and after wipe.
func (f *fleet) node(t *testing.T, node string) *world {
	t.Helper()
	if f.worlds[node] == nil {
		if f.dirs[node] == "" {
			f.dirs[node] = t.TempDir()
			f.disks[node] = memfs.New(f.dirs[node])
		}
		f.worlds[node] = openWatchedWorld(t, f.dirs[node], f.disks[node], node)
	}
	return f.worlds[node]
}

func (f *fleet) shutdown(node string) {
	if g := f.groups[node]; g != nil {
		g.Shutdown()
		delete(f.groups, node)
	}
}

// halt closes the stores of a node.
func (f *fleet) halt(t *testing.T, node string) {
	t.Helper()
	f.shutdown(node)
	if w := f.worlds[node]; w != nil {
		w.close(t)
		delete(f.worlds, node)
	}
}

// wipe deletes the disk of a node.
func (f *fleet) wipe(t *testing.T, node string) {
	t.Helper()
	f.halt(t, node)
	delete(f.dirs, node)
}

func (f *fleet) create(t *testing.T, node string, r Replica, voters ...string) {
	t.Helper()
	if err := CreateGroup(f.node(t, node).Stores, r, voters); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) tryOpen(t *testing.T, node string, cfg GroupConfig) (*Group, error) {
	t.Helper()
	layer := f.net.Listen(cfg.Replica.Name(node))
	cfg.Stream = layer
	if f.narrow > 0 {
		cfg.Stream = narrow{layer, f.narrow}
	}
	g, err := OpenGroup(f.node(t, node).Stores, cfg)
	if err == nil {
		f.groups[node] = g
	} else {
		layer.Close()
	}
	return g, err
}

func (f *fleet) open(t *testing.T, node string, r Replica) *Group {
	t.Helper()
	g, err := f.tryOpen(t, node, GroupConfig{Replica: r})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// found creates a group of voters on n1 to n3.
func (f *fleet) found(t *testing.T) {
	t.Helper()
	nodes := []string{"n1", "n2", "n3"}
	var voters []string
	for _, node := range nodes {
		voters = append(voters, lone.Name(node))
	}
	for _, node := range nodes {
		f.create(t, node, lone, voters...)
		f.open(t, node, lone)
	}
}

// leader waits until exactly one of the running nodes, not counting the excepted ones, is leader.
func (f *fleet) leader(t *testing.T, except ...string) (node string) {
	t.Helper()
	await.Until(t, "an election", func() bool {
		for n, g := range f.groups {
			if g.Leading() && !contains(except, n) {
				node = n
				return true
			}
		}
		return false
	})
	return node
}

// others returns the nodes with a running replica, without the excepted ones.
func (f *fleet) others(except ...string) (nodes []string) {
	for i := range 9 {
		if n := nodeName(i); f.groups[n] != nil && !contains(except, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func contains(list []string, s string) bool {
	for _, other := range list {
		if other == s {
			return true
		}
	}
	return false
}

// change makes a membership change on the leader's latest configuration, and retries while the error says to try again.
func change(t *testing.T, what func(name string, prevIndex uint64) error, g *Group, name string) {
	t.Helper()
	var err error
	await.Until(t, "the change of "+name+" is made", func() bool {
		var index uint64
		if _, index, err = g.Members(); err == nil {
			err = what(name, index)
		}
		var refused *shard.Error
		if err != nil && (!errors.As(err, &refused) || refused.Code != shard.Unavailable &&
			refused.Code != shard.Conflict) {
			t.Fatal(err)
		}
		return err == nil
	}, &err)
}

// join adds a replica to a group as a voter, in the same way as the cluster does.
func (f *fleet) join(t *testing.T, leader *Group, node string, r Replica) *Group {
	t.Helper()
	f.create(t, node, r)
	change(t, leader.AddLearner, leader, r.Name(node))
	g := f.open(t, node, r)
	change(t, leader.Promote, leader, r.Name(node))
	return g
}

// mustBe compares a group's members with want: voters and, after "-", learners.
func mustBe(t *testing.T, g *Group, want ...string) {
	t.Helper()
	members, index, err := g.Members()
	var got []string
	for _, m := range members {
		if !m.Voter {
			m.Name = "-" + m.Name
		}
		got = append(got, m.Name)
	}
	if err != nil || index == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: members of configuration %d are %v, want %v (%v)", g.name, index, got, want, err)
	}
}

func mustCode(t *testing.T, what string, err error, want shard.Code) {
	t.Helper()
	var got *shard.Error
	if !errors.As(err, &got) || got.Code != want {
		t.Errorf("%s: %v, want code %d", what, err, want)
	}
}

// agree waits until all running replicas hold the same state, with the first n keys.
func (f *fleet) agree(t *testing.T, n int) {
	t.Helper()
	await.Until(t, "agreement", func() bool {
		sums := make(map[uint64]bool)
		for _, g := range f.groups {
			g.View(func(s *shard.State) { sums[s.Sum()] = true })
		}
		return len(sums) == 1
	})
	for _, g := range f.groups {
		mustHold(t, g, n)
	}
}
