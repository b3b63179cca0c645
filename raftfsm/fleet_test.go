package raftfsm

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/raftfsm/memfs"
	"github.com/stint-io/stint/raftfsm/memnet"
	"github.com/stint-io/stint/shard"
)

// fleet is a group whose members come and go: nodes n1, n2 and so on, each with at most one replica that runs.
type fleet struct {
	net    *memnet.Net
	dirs   map[string]string
	disks  map[string]FS
	worlds map[string]*world
	groups map[string]*Group // by node
}

func newFleet() *fleet {
	return &fleet{net: memnet.New(), dirs: make(map[string]string), disks: make(map[string]FS),
		worlds: make(map[string]*world), groups: make(map[string]*Group)}
}

// stop ends everything that still runs.
func (f *fleet) stop(t *testing.T) {
	for node := range f.groups {
		f.shutdown(node)
	}
	for node := range f.worlds {
		f.halt(t, node)
	}
}

// node opens the stores of a node, fresh ones the first time and after wipe.
func (f *fleet) node(t *testing.T, node string) *world {
	t.Helper()
	if f.worlds[node] == nil {
		if f.dirs[node] == "" {
			f.dirs[node] = t.TempDir()
			f.disks[node] = memfs.New(f.dirs[node])
		}
		f.worlds[node] = openWorld(t, f.dirs[node], f.disks[node], node)
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

// wipe takes the disk of a node away.
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

// found makes a group of voters on n1 to n3.
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

// leader awaits the one leader among the nodes that run, and is not one that is cut off.
func (f *fleet) leader(t *testing.T, except ...string) (node string) {
	t.Helper()
	await(t, "an election", func() bool {
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

// others are the nodes with a running replica, except some.
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

// change makes a membership change on the leader's latest configuration, as often as it is told to try again.
func change(t *testing.T, what func(name string, prevIndex uint64) error, g *Group, name string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, index, err := g.Members()
		if err == nil {
			err = what(name, index)
		}
		var refused *shard.Error
		switch {
		case err == nil:
			return
		case !errors.As(err, &refused) || refused.Code != shard.Unavailable && refused.Code != shard.Conflict,
			time.Now().After(deadline):
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// join adds a replica to a group as a voter, by the way that the cluster goes.
func (f *fleet) join(t *testing.T, leader *Group, node string, r Replica) *Group {
	t.Helper()
	f.create(t, node, r)
	change(t, leader.AddLearner, leader, r.Name(node))
	g := f.open(t, node, r)
	change(t, leader.Promote, leader, r.Name(node))
	return g
}

// mustBe compares a group's members with voters and, after "-", learners.
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

// agree awaits that all running replicas hold the same state, with the first n keys.
func (f *fleet) agree(t *testing.T, n int) {
	t.Helper()
	await(t, "agreement", func() bool {
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
