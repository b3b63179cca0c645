package raftfsm

import (
	"errors"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func mustNotComeBack(t *testing.T, w *world) {
	t.Helper()
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); !errors.Is(err, ErrDestroyed) {
		t.Errorf("creating it again: %v", err)
	}
	if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); !errors.Is(err, ErrDestroyed) ||
		!errors.Is(err, ErrLost) {
		t.Errorf("opening it: %v", err)
	}
	if groups := w.Groups(); len(groups) != 0 {
		t.Errorf("listed: %v", groups)
	}
}

func mustBeGone(t *testing.T, w *world) {
	t.Helper()
	if first, _ := mustOpenLog(t, w).FirstIndex(); first != 0 {
		t.Errorf("entry %d is still there", first)
	}
	stable := &stableStore{file: w.file, prefix: lone.stablePrefix()}
	if term, err := stable.currentTerm(); err == nil && term != 0 {
		t.Errorf("its term is still there: %d", term)
	}
	if _, err := w.disk.Stat(w.disk.PathJoin(w.dir, snapshotsName, lone.snapshotsDir())); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("its snapshots are still there: %v", err)
	}
}

// A destroyed replica leaves nothing but the record that its number was used, across restarts too. Its neighbors lose
// nothing.
func TestDestroyedReplicaNeverComesBack(t *testing.T) {
	dir := t.TempDir()
	disk := vfs.NewMem()
	w := openWorld(t, dir, disk, "n1")
	neighbour := Replica{lone.Shard, lone.Number + 1}
	if err := CreateGroup(w.Stores, neighbour, []string{neighbour.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	beside := w.openGroup(t, GroupConfig{Replica: neighbour, Lone: true})
	lead(t, beside).mustPut(t, 5)
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 20)
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := DestroyGroup(w.Stores, lone); err == nil {
		t.Error("destroyed while it runs")
	}
	g.Shutdown()
	beside.Shutdown()
	if err := DestroyGroup(w.Stores, lone); err != nil {
		t.Fatal(err)
	}
	if groups := w.Groups(); len(groups) != 1 || groups[0] != neighbour {
		t.Errorf("groups are %v", groups)
	}
	mustBeGone(t, w)
	beside = w.openGroup(t, GroupConfig{Replica: neighbour, Lone: true})
	mustLead := lead(t, beside)
	mustHold(t, beside, 5)
	mustLead.mustPut(t, 6)
	beside.Shutdown()
	if err := DestroyGroup(w.Stores, neighbour); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustNotComeBack(t, w)
		if err := DestroyGroup(w.Stores, lone); err != nil {
			t.Errorf("again: %v", err)
		}
		w.close(t)
		w = openWorld(t, dir, disk, "n1")
	}
	w.close(t)
}

// The tombstone is written first. After a crash behind it the replica counts as destroyed, and the next start deletes
// its data.
func TestInterruptedDestructionIsFinished(t *testing.T) {
	dir := t.TempDir()
	disk := vfs.NewMem()
	w := openWorld(t, dir, disk, "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 20)
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	g.Shutdown()
	if err := w.condemn(lone); err != nil {
		t.Fatal(err)
	}
	mustNotComeBack(t, w)
	w.close(t)
	w = openWorld(t, dir, disk, "n1")
	defer w.close(t)
	mustNotComeBack(t, w)
	mustBeGone(t, w)
}

// A number can be ruled out before it was ever used here.
func TestReplicaIsDestroyedBeforeItIsCreated(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	if err := DestroyGroup(w.Stores, lone); err != nil {
		t.Fatal(err)
	}
	mustNotComeBack(t, w)
}
