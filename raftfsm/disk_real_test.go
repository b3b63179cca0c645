package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/shard"
)

// onSync calls f at every fsync of the write-ahead log.
func onSync(fs vfs.FS, f func() error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if syncs && strings.HasSuffix(op.Path, ".log") {
			return f()
		}
		return nil
	}))
}

// The n-th fsync fails, and would succeed if it were retried. It must not be retried: the node is told once, and
// nothing more is acknowledged. After a crash that loses the cache, everything that was acknowledged is there.
func TestFailedFsyncStopsEverythingOnce(t *testing.T) {
	for _, nth := range []int64{1, 2, 10} {
		dir := t.TempDir()
		disk := memfs.New(dir)
		var countdown atomic.Int64
		countdown.Store(1 << 40)
		w := openWorld(t, dir, onSync(disk, func() error {
			if countdown.Add(-1) == 0 {
				return syscall.EIO
			}
			return nil
		}), "n1")
		g := w.loneGroup(t)
		o := lead(t, g)
		countdown.Store(nth)
		acknowledged := 0
		for o.put(key(acknowledged), value(acknowledged)) == nil {
			acknowledged++
		}
		if cause := w.mustStop(t); !strings.Contains(cause.Error(), syscall.EIO.Error()) {
			t.Errorf("stopped by %v", cause)
		}
		if int64(acknowledged) >= nth {
			t.Errorf("%d entries were acknowledged, fsync %d failed", acknowledged, nth)
		}
		var refused *shard.Error
		if err := o.put("after", ""); !errors.As(err, &refused) || refused.MaybeApplied() {
			t.Errorf("after the failure: %v", err)
		}
		if g.Leading() {
			t.Error("a replica with a disk fault says that it leads")
		}
		crashed := memfs.CrashClone(disk, 0, 1)
		g.Shutdown()
		w.close(t)
		if calls := w.calls.Load(); calls != 1 {
			t.Errorf("the node was told %d times", calls)
		}

		w = openWorld(t, dir, crashed, "n1")
		g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
		lead(t, g)
		mustHold(t, g, acknowledged)
		g.Shutdown()
		w.close(t)
	}
}

// A failed write to any file, by any goroutine, sets the latch, and Pebble does not see the error.
func TestFailedWriteIsSeenBeforePebbleSeesIt(t *testing.T) {
	for _, failing := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData} {
		told := 0
		disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == failing {
				return syscall.EIO
			}
			return nil
		}))
		fs := newFaultyFS(disk, &diskLatch{logger: quiet.to, fatal: func(error) { told++ }}, &tail{files: disk})
		f, err := fs.Create("table", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, write := f.Write([]byte("x"))
		if err := errors.Join(write, f.SyncData(), f.Sync()); err != nil {
			t.Errorf("operation %d: Pebble is told of %v", failing, err)
		}
		if told != 1 || !errors.Is(fs.fault.cause(), syscall.EIO) {
			t.Errorf("operation %d: told %d times of %v", failing, told, fs.fault.cause())
		}
		f.Close()
	}
}

// After a failed fsync the bytes may exist only in the page cache. A process that starts then reads them and builds on
// them, so it must first bring them to the disk: the entries that it read are there after the next crash.
func TestWhatARestartReadFromTheCacheIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	disk := memfs.New(dir)
	var failing atomic.Bool
	w := openWorld(t, dir, onSync(disk, func() error {
		if failing.Load() {
			return syscall.EIO
		}
		return nil
	}), "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	o.mustPut(t, 10)
	failing.Store(true)
	if err := o.put("key10", "value10"); err == nil {
		t.Fatal("acknowledged without an fsync")
	}
	unsynced, cached := memfs.CrashClone(disk, 0, 1), cacheClone(t, disk, dir)
	g.Shutdown()
	w.close(t)

	for _, c := range []struct {
		what string
		disk memfs.FS
		n    int
	}{{"the cache was lost", unsynced, 10}, {"the cache was there", cached, 11}} {
		w := openWorld(t, dir, c.disk, "n1")
		g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
		await.Until(t, "leadership", g.Leading)
		log, err := openLogStore(w.db, lone.logPrefix())
		if err != nil {
			t.Fatal(err)
		}
		before, _ := log.LastIndex()
		lead(t, g)
		mustHold(t, g, c.n)
		again := memfs.CrashClone(c.disk, 0, 1)
		g.Shutdown()
		w.close(t)

		w = openWorld(t, dir, again, "n1")
		log, err = openLogStore(w.db, lone.logPrefix())
		if err != nil {
			t.Fatal(err)
		}
		if last, _ := log.LastIndex(); last < before {
			t.Errorf("%s: a restart saw %d entries, the next only %d", c.what, before, last)
		}
		g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
		lead(t, g)
		mustHold(t, g, c.n)
		g.Shutdown()
		w.close(t)
	}
}

// cacheClone is the disk as another process on the same machine sees it: all written bytes are there, fsynced or not,
// and the next crash loses the bytes that are not fsynced by then.
func cacheClone(t *testing.T, disk memfs.FS, dir string) memfs.FS {
	t.Helper()
	clone := memfs.New(dir)
	path := filepath.Join(dir, logName)
	if _, err := vfs.Clone(disk, clone, path, path); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, dir} { // the names were fsynced, but not the content of the files
		d, err := clone.OpenDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// An fsync does not return: the group stops sending after one heartbeat timeout, and the node stops after three.
func TestHungFsyncIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		release := make(chan struct{})
		var hanging atomic.Bool
		w := openWatchedWorld(t, dir, onSync(vfs.NewMem(), func() error {
			if hanging.Load() {
				<-release
			}
			return nil
		}), "n1")
		g := w.loneGroup(t)
		o := lead(t, g)
		hanging.Store(true)
		wait := g.Propose(o.next("key0", "value0"))
		started := time.Now()
		await.Until(t, "silence", g.guard.hung.Load)
		if took := time.Since(started); took < heartbeatTimeout/2 || took > 2*heartbeatTimeout {
			t.Errorf("silent after %v", took)
		}
		w.mustStop(t)
		if took := time.Since(started); took < 2*heartbeatTimeout || took > 4*heartbeatTimeout {
			t.Errorf("stopped after %v", took)
		}
		var unclear *shard.Error
		if _, err := wait(); !errors.As(err, &unclear) || !unclear.MaybeApplied() {
			t.Errorf("the proposal under way ended with %v", err)
		}
		hanging.Store(false)
		close(release)
		g.Shutdown()
		w.close(t)
	})
}

// lineFile is a small file with writes one after the other. A channel is the lock, so that virtual time passes for
// those that wait.
type lineFile struct {
	StableFile
	turn  chan struct{}
	write func()
}

func (f lineFile) Set(key, value []byte) error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.write()
	return f.StableFile.Set(key, value)
}

// A node that starts on a slow disk has many writes of the small file that wait for each other, longer than a disk may
// hang.
func TestALineOfSlowWritesIsNotAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWatchedWorld(t, t.TempDir(), vfs.NewMem(), "n1")
		took := 300 * time.Millisecond
		w.file.StableFile = lineFile{w.file.StableFile, make(chan struct{}, 1), func() { time.Sleep(took) }}
		var writers sync.WaitGroup
		for i := range 20 {
			writers.Go(func() {
				if err := w.PutRecord(fmt.Sprint("record", i), i); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		took = time.Hour
		writers.Go(func() { _ = w.PutRecord("record", "one that hangs") })
		w.mustStop(t)
		writers.Wait()
		w.close(t)
	})
}

// A process that was paused has old writes and few ticks.
func TestPausedProcessIsNotAHungDisk(t *testing.T) {
	w := newWatchdog(&diskLatch{fatal: func(error) { t.Error("a pause was taken for a hung disk") }}, fatalTicks)
	var hung atomic.Bool
	end := w.begin(pendingWrite{what: "a write", hung: &hung})
	for range hungTicks - 1 { // however far apart the ticks were
		w.tick()
	}
	if hung.Load() {
		t.Error("hung too early")
	}
	w.tick()
	if !hung.Load() {
		t.Error("not hung after a heartbeat time-out")
	}
	end()
	if hung.Load() {
		t.Error("hung after the write returned")
	}
}

// A flipped byte of the log is never served, neither by a running replica nor by one that starts.
func TestCorruptEntryIsNeverServed(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 10)
	g.Shutdown()
	log, err := openLogStore(w.db, lone.logPrefix())
	if err != nil {
		t.Fatal(err)
	}
	corrupt(t, log, 5)
	if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened over a corrupt entry: %v", err)
	}
	if err := log.GetLog(5, new(raftLog)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("read a corrupt entry: %v", err)
	}
	w.close(t)
}

func TestCorruptEntryStopsARunningReplica(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	log := &guardedLog{logStore: mustOpenLog(t, w), guard: g.guard}
	corrupt(t, log.logStore, 2)
	err := w.fault.contain(func() error {
		log.GetLog(2, new(raftLog))
		t.Error("a corrupt entry was served")
		return nil
	})
	if !errors.Is(err, ErrCorrupt) || !errors.Is(w.mustStop(t), ErrCorrupt) {
		t.Errorf("stopped by %v", err)
	}
	if err := o.put("key0", "value0"); err == nil {
		t.Error("acknowledged after corruption was seen")
	}
	g.Shutdown()
	w.close(t)
}

func mustOpenLog(t *testing.T, w *world) *logStore {
	t.Helper()
	log, err := openLogStore(w.db, lone.logPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func corrupt(t *testing.T, log *logStore, index uint64) {
	t.Helper()
	stored, closer, err := log.db.Get(log.key(index))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(stored)
	closer.Close()
	flipped[len(flipped)/2] ^= 1
	if err := log.db.Set(log.key(index), flipped, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

// A byte that flips in the write-ahead log before its synced end must not be taken for the torn end of the file: the
// acknowledged entries behind it would be lost silently. (Pebble continues its search at the next block of 32 KiB.)
func TestFlippedByteInTheWriteAheadLogIsNotATornTail(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	for i := range 100 {
		if err := o.put(key(i), strings.Repeat("x", 2000)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy") // the state that a kill leaves; closing would write tables
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	g.Shutdown()
	w.close(t)
	logs, err := filepath.Glob(filepath.Join(copied, logName, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	flipByte(t, logs[0], 50_000)
	if stores, err := OpenStores(copied, StoresConfig{Fatal: func(error) {}}); err == nil {
		stores.Close()
		t.Error("the log was opened without its acknowledged end")
	}
}
