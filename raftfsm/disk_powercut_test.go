package raftfsm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/memfs"
)

var _ StableFS = (*memfs.Disk)(nil)

// The power fails right after something was reported as written: unfsynced data is gone, including names of
// directories. Everything is on one disk in memory: also identity, terms, votes, snapshots and marks.
func TestWhatWasSaidSurvivesAPowerCut(t *testing.T) {
	disk, dir := memfs.NewDisk(memfs.New("/machine")), "/machine/volumes/data"
	cut := func(w *world) *world {
		t.Helper()
		disk = memfs.NewDisk(memfs.CrashClone(disk, 0, 1))
		w.close(t)
		return openWorld(t, dir, disk, "n1")
	}

	w := cut(openWorld(t, dir, disk, "n1"))
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	w = cut(w)
	g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	lead(t, g).mustPutAtOnce(t, trailingEntries+100)
	if err := g.Snapshot(); err != nil { // it shortens the log
		t.Fatal(err)
	}
	status, term := g.Status(), g.raft.CurrentTerm()
	disk = memfs.NewDisk(memfs.CrashClone(disk, 0, 1))
	g.Shutdown()
	w.close(t)

	w = openWorld(t, dir, disk, "n1")
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	lead(t, g)
	mustHold(t, g, trailingEntries+100)
	if now := g.Status(); now.SnapshotIndex != status.SnapshotIndex || g.raft.CurrentTerm() <= term {
		t.Errorf("after the power cut %+v, before it %+v", now, status)
	}
	g.Shutdown()
	w.suspicion.raise()
	if w = cut(w); !w.Suspect() {
		t.Error("the mark of a failed disk is gone")
	}
	if err := DestroyGroup(w.Stores, lone); err != nil {
		t.Fatal(err)
	}
	w = cut(w)
	if len(w.Groups()) != 0 || w.Suspect() {
		t.Errorf("destroyed, and there are %v; suspect: %v", w.Groups(), w.Suspect())
	}
	mustBeGone(t, w)
	w.close(t)
}

// A snapshot can be read by a version that used raft's own snapshot store, and vice versa.
func TestSnapshotsAreThoseOfRaftsOwnStore(t *testing.T) {
	dir := t.TempDir()
	theirs, err := raft.NewFileSnapshotStore(dir, snapshotsRetained, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := openSnapshots(newDisk(nil), dir)
	if err != nil {
		t.Fatal(err)
	}
	members := raft.Configuration{Servers: []raft.Server{{ID: "n1/1/7", Address: "n1/1/7"},
		{Suffrage: raft.Nonvoter, ID: "n2/1/8", Address: "n2/1/8"}}}
	_, network := raft.NewInmemTransport("")
	for i, store := range []raft.SnapshotStore{theirs, ours, theirs, ours} {
		index := uint64(10 * (i + 1))
		state := bytes.Repeat([]byte{byte(i)}, 10_000)
		sink, err := store.Create(raft.SnapshotVersionMax, index, 2, members, 3, network)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sink.Write(state)
		if err := errors.Join(err, sink.Close(), sink.Close()); err != nil {
			t.Fatal(err)
		}
		for _, reader := range []raft.SnapshotStore{theirs, ours} {
			listed, err := reader.List()
			if err != nil || len(listed) != min(i+1, snapshotsRetained) {
				t.Fatal(len(listed), err)
			}
			meta, from, err := reader.Open(sink.ID())
			if err != nil {
				t.Fatal(err)
			}
			read, err := io.ReadAll(from)
			if err = errors.Join(err, from.Close()); err != nil || !bytes.Equal(read, state) {
				t.Errorf("snapshot %d reads as %d bytes, %v", i, len(read), err)
			}
			if listed[0].ID != meta.ID || meta.Index != index || meta.Term != 2 ||
				meta.ConfigurationIndex != 3 || meta.Size != int64(len(state)) ||
				len(meta.Configuration.Servers) != 2 || meta.Configuration.Servers[1] != members.Servers[1] {
				t.Errorf("snapshot %d is described as %+v", i, meta)
			}
		}
	}
	sink, err := ours.Create(raft.SnapshotVersionMax, 99, 9, members, 3, network)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sink.Cancel(), sink.Close()); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, snapshotsInner)); err != nil || len(names) != snapshotsRetained {
		t.Errorf("%d directories are left, %v", len(names), err)
	}
}

// killedRemoving is a disk on which the process ends while a directory is removed: the first file in it is gone.
type killedRemoving struct{ FS }

func (k killedRemoving) RemoveAll(name string) error {
	names, err := k.List(name)
	if err == nil && len(names) > 0 {
		err = k.Remove(k.PathJoin(name, slices.Min(names)))
	}
	return errors.Join(err, errors.New("killed"))
}

// A process may end anywhere in the deletion of an old snapshot: the replica has the newer ones and is not lost.
func TestASnapshotThatIsHalfDeletedIsNoLoss(t *testing.T) {
	dir := t.TempDir()
	store, err := openSnapshots(killedRemoving{newDisk(nil)}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range snapshotsRetained + 1 {
		sink, err := store.Create(raft.SnapshotVersionMax, uint64(i+1), 1, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); (err != nil) != (i == snapshotsRetained) {
			t.Fatalf("snapshot %d: %v", i, err)
		}
	}
	if store, err = openSnapshots(newDisk(nil), dir); err != nil {
		t.Fatal(err)
	}
	if listed, err := store.List(); err != nil || len(listed) != snapshotsRetained ||
		listed[0].Index != snapshotsRetained+1 {
		t.Errorf("listed %v, %v", listed, err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, snapshotsInner)); err != nil || len(names) != snapshotsRetained {
		t.Errorf("%d directories are left, %v", len(names), err)
	}
}

// A disk that is full at any moment of a snapshot keeps nothing of it: the room is what the next one needs.
func TestASnapshotThatFindsNoRoomLeavesNothing(t *testing.T) {
	for nth, failed := int64(1), 0; ; nth++ {
		b := newBrittle(vfs.NewMem(), syscall.ENOSPC)
		store, err := openSnapshots(newDisk(b.failing), "snapshots")
		if err != nil {
			t.Fatal(err)
		}
		b.left.Store(nth)
		sink, err := store.Create(raft.SnapshotVersionMax, 1, 1, raft.Configuration{}, 1, nil)
		if err == nil {
			if _, err = sink.Write(make([]byte, 2*snapshotBuffer)); err != nil {
				err = errors.Join(err, sink.Cancel())
			} else {
				err = sink.Close()
			}
		}
		if b.hit.Load() == nil {
			if err != nil || failed < 10 {
				t.Errorf("%d operations failed; then: %v", failed, err)
			}
			return
		}
		failed++
		names, listed := b.failing.List(store.dir)
		if listed != nil || err != nil && slices.ContainsFunc(names, func(name string) bool {
			return strings.HasSuffix(name, snapshotUnfinished)
		}) {
			t.Errorf("%v failed, and %v are left: %v, %v", b, names, err, listed)
		}
	}
}

// A follower may finish a snapshot of its own while it finishes one from its leader, and while the snapshots are
// listed. The disk takes its time, so that the other goroutine runs in the middle of each of these.
func TestSnapshotsAreFinishedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		slow := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(errorfs.Op) error {
			time.Sleep(time.Duration(1+calls.Add(1)*7%5) * time.Millisecond)
			return nil
		}))
		store, err := openSnapshots(newDisk(slow), "snapshots")
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for term := range uint64(2) {
			group.Go(func() {
				for index := range uint64(20) {
					sink, err := store.Create(raft.SnapshotVersionMax, index+1, term+1, raft.Configuration{}, 1, nil)
					if err == nil {
						err = sink.Close()
					}
					if _, failed := store.List(); err != nil || failed != nil {
						t.Errorf("snapshot %d of term %d: %v, listed: %v", index, term, err, failed)
						return
					}
				}
			})
		}
		group.Wait()
	})
}

// While a replica is opened, the machine has no free descriptor left, or the disk fails to read a snapshot. The replica
// is not opened with an older state. It is not reported as lost for want of a descriptor either, because a lost replica
// is destroyed.
func TestASnapshotThatCannotBeLookedAtIsNotPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		kind errorfs.OpKind
		file string
		err  error
	}{
		"no descriptor left":       {errorfs.OpOpen, snapshotMetaName, syscall.ENFILE},
		"the disk does not answer": {errorfs.OpStat, snapshotsInner + "/", syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			dir, failing := t.TempDir(), new(atomic.Bool)
			disk := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && op.Kind == c.kind && strings.Contains(op.Path, c.file) {
					return c.err
				}
				return nil
			}))
			w := openWorld(t, dir, disk, "n1")
			defer w.Close()
			g := w.loneGroup(t)
			lead(t, g).mustPut(t, 5)
			if err := g.Snapshot(); err != nil {
				t.Fatal(err)
			}
			g.Shutdown()
			failing.Store(true)
			g, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true})
			if err == nil {
				t.Errorf("it is opened with a snapshot up to %d", g.Status().SnapshotIndex)
				g.Shutdown()
			}
			if !errors.Is(err, c.err) || errors.Is(err, ErrLost) || errors.Is(err, ErrCorrupt) {
				t.Errorf("it is refused with %v", err)
			}
		})
	}
}
