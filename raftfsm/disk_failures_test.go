package raftfsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/memfs"
)

// brittle is a disk on which one operation fails. kind is the kind of operations that count; all count if it is
// negative.
type brittle struct {
	failing FS
	kind    errorfs.OpKind
	left    atomic.Int64 // operations until one fails
	seen    [errorfs.OpFileFlush + 1]atomic.Int64
	hit     atomic.Pointer[errorfs.Op]
}

func newBrittle(disk FS, err error) *brittle {
	b := &brittle{kind: -1}
	b.left.Store(1 << 40)
	b.failing = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		b.seen[op.Kind].Add(1)
		if b.kind >= 0 && op.Kind != b.kind || b.left.Add(-1) != 0 {
			return nil
		}
		b.hit.Store(&op)
		return err
	}))
	return b
}

func (b *brittle) String() string {
	return fmt.Sprintf("operation %d on %s", b.hit.Load().Kind, b.hit.Load().Path)
}

// wear writes and deletes entries of a group, so that Pebble starts new log files, flushes and compacts. It returns how
// many entries were acknowledged before the first error.
func wear(w *world) (acknowledged uint64, err error) {
	err = w.fault.contain(func() error {
		log, err := openLogStore(w.db, lone.logPrefix())
		if err != nil {
			return err
		}
		for i := uint64(1); i <= 60; i++ {
			if err := log.StoreLog(&raft.Log{Index: i, Term: 1,
				Data: bytes.Repeat([]byte{byte(i)}, 8<<10)}); err != nil {
				return err
			}
			if err := w.fault.cause(); err != nil {
				return err
			}
			acknowledged = i
		}
		return w.db.Compact(context.Background(), []byte("a"), []byte("z"), false)
	})
	return acknowledged, err
}

// Each operation on a file fails once, early, late or in between. Nothing crashes, the node is told once if the
// operation was more than a read, and every entry that was acknowledged before is on disk.
func TestAnyOperationOnTheLogMayFail(t *testing.T) {
	whole := newBrittle(memfs.New(), nil)
	w := openSmallWorld(t, t.TempDir(), whole.failing)
	for i := range whole.seen {
		whole.seen[i].Store(0)
	}
	if n, err := wear(w); n != 60 || err != nil {
		t.Fatal(n, err)
	}
	w.close(t)
	failures := 0
	for kind := range whole.seen {
		n := whole.seen[kind].Load()
		for _, nth := range []int64{1, 2, 3, n / 2, n - 1} {
			if nth < 1 || nth > n {
				continue
			}
			for _, reason := range []error{syscall.EIO, syscall.ENOSPC} {
				if failOnce(t, errorfs.OpKind(kind), nth, reason) {
					failures++
				}
			}
		}
	}
	if failures < 30 {
		t.Errorf("only %d operations failed", failures)
	}
}

// failOnce makes one operation fail and reports whether that operation was reached.
func failOnce(t *testing.T, kind errorfs.OpKind, nth int64, reason error) bool {
	dir, disk := t.TempDir(), memfs.New()
	if err := makeDirs(disk, dir); err != nil {
		t.Fatal(err)
	}
	b := newBrittle(disk, reason)
	b.kind = kind
	w := openSmallWorld(t, dir, b.failing)
	b.left.Store(nth)
	acknowledged, err := wear(w)
	reads := kind == errorfs.OpFileRead || kind == errorfs.OpFileReadAt || kind == errorfs.OpOpen ||
		kind == errorfs.OpStat || kind == errorfs.OpList || kind == errorfs.OpGetDiskUsage
	if b.hit.Load() != nil && !reads {
		if cause := w.mustStop(t); !errors.Is(cause, reason) {
			t.Errorf("%v: stopped by %v", b, cause)
		}
		if err := w.PutRecord("late", 1); !errors.Is(err, ErrUntrusted) {
			t.Errorf("%v: a record afterwards: %v", b, err)
		}
	}
	if b.hit.Load() == nil && err != nil {
		t.Errorf("nothing failed, and yet: %v", err)
	}
	crashed := memfs.CrashClone(disk, 0, 1)
	w.close(t)
	if calls := w.calls.Load(); calls > 1 {
		t.Errorf("%v: the node was told %d times", b, calls)
	}
	w = openSmallWorld(t, dir, crashed)
	defer w.close(t)
	for i := uint64(1); i <= acknowledged; i++ {
		var entry raft.Log
		if err := mustOpenLog(t, w).GetLog(i, &entry); err != nil || len(entry.Data) != 8<<10 {
			t.Errorf("%v: entry %d was acknowledged: %v", b, i, err)
			break
		}
	}
	return b.hit.Load() != nil
}

// Each operation fails once while a data directory is created or opened. If opening fails, the error is the disk's, and
// the next attempt finds all existing data.
func TestAnyOperationOfAStartMayFail(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		failed := 0
		for nth := int64(1); ; nth++ {
			dir, disk := t.TempDir(), memfs.New()
			if err := makeDirs(disk, dir); err != nil {
				t.Fatal(err)
			}
			if !fresh {
				w := openWorld(t, dir, disk, "n1")
				if err := mustOpenLog(t, w).StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
					t.Fatal(err)
				}
				disk = memfs.CrashClone(disk, 100, 1) // the log is not empty
				w.close(t)
			}
			b := newBrittle(disk, syscall.EIO)
			b.left.Store(nth)
			stores, err := OpenStores(dir, StoresConfig{Fresh: testIdentity, FS: b.failing, Fatal: func(error) {}})
			hit := b.hit.Load() != nil
			if err == nil {
				stores.Close()
			}
			if !hit {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if failed++; err != nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("%v failed: %v", b, err)
			}
			w := openWorld(t, dir, disk, "n1")
			if last, _ := mustOpenLog(t, w).LastIndex(); !fresh && last != 1 {
				t.Errorf("%v failed, and the log ends at %d now", b, last)
			}
			w.close(t)
		}
		if failed < 20 {
			t.Errorf("only %d operations failed", failed)
		}
	}
}

// Pebble does not see the failure and reports success. raft must not see that success.
func TestNothingIsTakenForDoneThatCameAfterTheFailure(t *testing.T) {
	for what, call := range map[string]func(*guardedLog){
		"storing":  func(l *guardedLog) { l.StoreLogs([]*raft.Log{{Index: 1, Term: 1}}) },
		"deleting": func(l *guardedLog) { l.DeleteRange(1, 1) },
	} {
		b := newBrittle(memfs.New(), syscall.EIO)
		b.kind = errorfs.OpFileSyncData
		w := openSmallWorld(t, t.TempDir(), b.failing)
		log := &guardedLog{logStore: mustOpenLog(t, w), roster: new(roster),
			guard: &guard{fault: w.fault, watchdog: w.watchdog, group: "g"}}
		b.left.Store(1)
		isolate(func() error {
			call(log)
			t.Errorf("%s went on after the failure", what)
			return nil
		})
		if b.hit.Load() == nil {
			t.Errorf("%s did not fail", what)
		}
		w.close(t)
	}
}
