package raftfsm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

// seedOf returns the state of a group that has seen entries, and closes it.
func seedOf(t *testing.T, n int) *shard.State {
	t.Helper()
	w := openWorld(t, t.TempDir(), nil, "n1")
	defer w.close(t)
	g := w.loneGroup(t)
	defer g.Shutdown()
	lead(t, g).mustPut(t, n)
	picture, ok := g.Picture(1, 1, func(*shard.State) {})
	if !ok {
		t.Fatal("there is no picture of an entry that was installed")
	}
	if _, ok := g.Picture(1<<50, 1, nil); ok {
		t.Error("there is a picture of an entry that does not exist")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "picture"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := picture.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	state, err := shard.Restore(lone.Shard, file)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

var restoreConfig = StoresConfig{Fresh: Identity{Cluster: "c2", Node: "n1"}, FreshLevel: shard.LevelNewest,
	Fatal: func(error) {}, fatal: math.MaxInt}

const seedIndex = 1 << 40

func seeding(state *shard.State) func(*Stores) error {
	return func(s *Stores) error { return SeedGroup(s, lone, seedIndex, 3, state) }
}

// TestASeededGroupContinues: with the records of its state, in epochs after its index, also after restarts and
// snapshots.
func TestASeededGroupContinues(t *testing.T) {
	const n = 50
	dir := filepath.Join(t.TempDir(), "new", "data")
	if err := RestoreStores(dir, restoreConfig, seeding(seedOf(t, n))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := openWorld(t, dir, nil, "n1")
		if w.Level() != shard.LevelNewest || w.Identity().Cluster != "c2" {
			t.Errorf("the directory is of %+v, at level %d", w.Identity(), w.Level())
		}
		g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
		mustHold(t, g, n)
		owner := lead(t, g)
		if owner.at.Epoch <= seedIndex {
			t.Errorf("the epoch is %d", owner.at.Epoch)
		}
		owner.mustPut(t, n)
		if err := g.Snapshot(); err != nil {
			t.Error(err)
		}
		g.Shutdown()
		w.close(t)
	}
}

// TestHalfARestoreDoesNotStart, whatever it left, and it can be started over.
func TestHalfARestoreDoesNotStart(t *testing.T) {
	state := seedOf(t, 3)
	interrupted := errors.New("interrupted")
	for name, fill := range map[string]func(*Stores) error{
		"before the first group": func(*Stores) error { return interrupted },
		"after a group":          func(s *Stores) error { return errors.Join(seeding(state)(s), interrupted) },
		"with a bad index":       func(s *Stores) error { return SeedGroup(s, lone, 1, 3, state) },
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := RestoreStores(dir, restoreConfig, fill); err == nil {
			t.Fatalf("%s: no error", name)
		}
		if !Exists(dir, nil) {
			t.Errorf("%s: the directory looks empty, so a node would found a new cluster in it", name)
		}
		if _, err := OpenStores(dir, restoreConfig); err == nil ||
			!strings.Contains(err.Error(), "restore that did not end") {
			t.Errorf("%s: opened with %v", name, err)
		}
		if err := RestoreStores(dir, restoreConfig, seeding(state)); err != nil {
			t.Errorf("%s: started over: %v", name, err)
		}
		openWorld(t, dir, nil, "n1").close(t)
	}
	dir := t.TempDir() // killed after the first write
	if err := os.WriteFile(filepath.Join(dir, restoringName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStores(dir, restoreConfig); !Exists(dir, nil) || err == nil {
		t.Errorf("a directory with nothing but the mark is opened: %v", err)
	}
}

func TestARestoreNeedsAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	never := func(*Stores) error { t.Error("it is filled"); return nil }
	if err := RestoreStores(dir, restoreConfig, never); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while a node runs there: %v", err)
	}
	w.close(t)
	if err := RestoreStores(dir, restoreConfig, never); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("over a node's data: %v", err)
	}
	openWorld(t, dir, nil, "n1").close(t)
}
