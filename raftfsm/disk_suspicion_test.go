package raftfsm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stint-io/stint/shard"
)

// failingWorld opens stores on a disk that fails every fsync of the log while failing holds an error.
func failingWorld(t *testing.T, dir string, disk FS, failing *atomic.Pointer[error]) *world {
	t.Helper()
	return openWorld(t, dir, onSync(disk, func() error {
		if err := failing.Load(); err != nil {
			return *err
		}
		return nil
	}), "n1")
}

// ownGroup creates and opens a lone group of another shard.
func (w *world) ownGroup(t *testing.T, r Replica) *Group {
	t.Helper()
	if err := CreateGroup(w.Stores, r, []string{r.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	return w.openGroup(t, GroupConfig{Replica: r, Lone: true})
}

var (
	voter      = Replica{Shard: 2, Number: 1}
	replaced   = Replica{Shard: 2, Number: 5}
	ofOtherTwo = []string{"n2/2/1", "n3/2/1"}
)

// After a failed fsync and a restart, a replica with other voters must not vote again, because the entries that it
// acknowledged may be gone from the disk. A new replica under a new number may vote, and the only voter of a group
// continues. When no replica from the time of the failure is left on the disk, the suspicion ends.
func TestReplicasOfAFailedDiskAreReplaced(t *testing.T) {
	dir, disk := t.TempDir(), vfs.NewMem()
	var failing atomic.Pointer[error]
	w := failingWorld(t, dir, disk, &failing)
	if err := CreateGroup(w.Stores, voter, append(ofOtherTwo, voter.Name("n1"))); err != nil {
		t.Fatal(err)
	}
	g := w.loneGroup(t)
	o := lead(t, g)
	o.mustPut(t, 5)
	if w.Suspect() {
		t.Error("suspect while all is well")
	}
	eio := error(syscall.EIO)
	failing.Store(&eio)
	if o.put("key5", "value5") == nil {
		t.Fatal("acknowledged without an fsync")
	}
	w.mustStop(t)
	g.Shutdown()
	w.close(t)
	failing.Store(nil)

	for range 2 { // the mark stays
		w = failingWorld(t, dir, disk, &failing)
		if !w.Suspect() {
			t.Fatal("the failure was forgotten")
		}
		if _, err := w.tryGroup(GroupConfig{Replica: voter}); !errors.Is(err, ErrLost) {
			t.Errorf("one of three was opened on a disk that failed: %v", err)
		}
		w.close(t)
	}
	w = failingWorld(t, dir, disk, &failing)
	defer func() { w.close(t) }()
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	lead(t, g)
	mustHold(t, g, 5)
	g.Shutdown()
	g = w.openGroup(t, GroupConfig{Replica: lone}) // it may get more voters now
	g.Shutdown()
	if err := CreateGroup(w.Stores, replaced, nil); err != nil {
		t.Fatal(err)
	}
	w.openGroup(t, GroupConfig{Replica: replaced}).Shutdown()
	if !w.Suspect() {
		t.Error("the old replica is there, and nobody says so")
	}
	if err := DestroyGroup(w.Stores, voter); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(filepath.Join(dir, suspectName)); w.Suspect() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing suspect is left: suspect %v, mark %v", w.Suspect(), err)
	}
}

// The mark is on the disk before the node is told to stop.
func TestMarkComesBeforeTheEnd(t *testing.T) {
	dir := t.TempDir()
	marked := make(chan error, 1)
	p := &diskLatch{logger: quiet.to, fatal: func(error) {
		_, err := os.Stat(filepath.Join(dir, suspectName))
		marked <- err
	}}
	var s suspicion
	if err := s.load(vfs.Default, dir, []groupRecord{{Replica: lone}}); err != nil {
		t.Fatal(err)
	}
	p.distrust = func(error) { s.raise() }
	p.fail(writeFailed(syscall.EIO))
	if err := <-marked; err != nil {
		t.Errorf("told without a mark: %v", err)
	}
}

// Which errors make a disk suspect, and which do not.
func TestSuspicion(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{writeFailed(syscall.EIO), true},
		{writeFailed(errors.New("of some kind")), true},
		{fmt.Errorf("storing: %w", writeFailed(&os.PathError{Op: "sync", Err: syscall.EROFS})), true},
		{fmt.Errorf("reading: %w", syscall.EIO), true},
		{fmt.Errorf("reading: %w", ErrCorrupt), true},
		{writeFailed(fmt.Errorf("writing: %w", syscall.ENOSPC)), false},
		{writeFailed(&os.PathError{Op: "open", Err: syscall.EMFILE}), false},
		{errors.New("the disk hangs"), false},
		{errors.New("entry 12 was answered by nil"), false},
	} {
		if got := suspicious(c.err); got != c.want {
			t.Errorf("%v is suspicious: %v", c.err, got)
		}
	}
}

// A full disk, or an entry that cannot be installed, stops the node and leaves no mark.
func TestFullDiskLeavesNoMark(t *testing.T) {
	for what, fail := range map[string]func(*world, *owner, *atomic.Pointer[error]){
		"a full disk": func(_ *world, o *owner, failing *atomic.Pointer[error]) {
			full := error(syscall.ENOSPC)
			failing.Store(&full)
			o.put("key0", "value0")
		},
		"an entry that cannot be installed": func(_ *world, o *owner, _ *atomic.Pointer[error]) {
			o.Propose([]byte("not an entry"))()
		},
		"a hanging disk": func(w *world, _ *owner, _ *atomic.Pointer[error]) {
			var hung atomic.Bool
			dog := newWatchdog(w.fault, fatalTicks)
			dog.begin(pendingWrite{what: "a write", hung: &hung})
			for range fatalTicks {
				dog.tick()
			}
		},
	} {
		dir, disk := t.TempDir(), vfs.NewMem()
		var failing atomic.Pointer[error]
		w := failingWorld(t, dir, disk, &failing)
		g := w.loneGroup(t)
		fail(w, lead(t, g), &failing)
		w.mustStop(t)
		g.Shutdown()
		w.close(t)
		failing.Store(nil)
		w = failingWorld(t, dir, disk, &failing)
		if w.Suspect() {
			t.Errorf("%s made the disk suspect", what)
		}
		w.close(t)
	}
}

// Corruption found by a running replica leaves a mark too, and an unreadable mark counts as naming every replica.
func TestCorruptionAndUnreadableMarks(t *testing.T) {
	dir, disk := t.TempDir(), vfs.NewMem()
	w := openWorld(t, dir, disk, "n1")
	g := w.ownGroup(t, voter)
	lead(t, g).mustPut(t, 3)
	log := &guardedLog{logStore: mustOpenLogOf(t, w, voter), guard: g.guard, roster: &g.roster}
	corrupt(t, log.logStore, 2)
	isolate(func() error { return log.GetLog(2, new(raftLog)) })
	if cause := w.mustStop(t); !errors.Is(cause, ErrCorrupt) {
		t.Errorf("stopped by %v", cause)
	}
	g.Shutdown()
	w.close(t)
	mark := filepath.Join(dir, suspectName)
	if _, err := disk.Stat(mark); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(disk, mark, []byte("[{")); err != nil {
		t.Fatal(err)
	}
	w = openWorld(t, dir, disk, "n1")
	defer w.close(t)
	if _, err := w.tryGroup(GroupConfig{Replica: voter}); !w.Suspect() || !errors.Is(err, ErrLost) {
		t.Errorf("suspect %v, opened: %v", w.Suspect(), err)
	}
}

func mustOpenLogOf(t *testing.T, w *world, r Replica) *logStore {
	t.Helper()
	log, err := openLogStore(w.db, r.logPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// The bolt file fails like the log: a vote that could not be written does not count, and the disk is suspect.
func TestFailedVoteMakesSuspect(t *testing.T) {
	dir, disk := t.TempDir(), vfs.NewMem()
	w := openWorld(t, dir, disk, "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	isolate(func() error {
		g.guard.write(pendingWrite{what: "storing a vote"}, func() error { return errors.New("bbolt: input/output error") })
		return nil
	})
	w.mustStop(t)
	var refused *shard.Error
	if err := o.put("key0", ""); !errors.As(err, &refused) {
		t.Errorf("after the failure: %v", err)
	}
	g.Shutdown()
	w.close(t)
	w = openWorld(t, dir, disk, "n1")
	defer w.close(t)
	if !w.Suspect() {
		t.Error("the failure was forgotten")
	}
}
