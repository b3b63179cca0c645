package raftfsm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/shard"
)

func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	const n = 50
	w := openWorld(t, dir, nil, "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, n)
	g.Shutdown()
	w.close(t)

	w = openWorld(t, dir, nil, "n1")
	defer w.close(t)
	if groups := w.Groups(); len(groups) != 1 || groups[0] != lone {
		t.Fatalf("groups are %v", groups)
	}
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	defer g.Shutdown()
	lead(t, g)
	mustHold(t, g, n)
}

func TestEveryEpochIsHigherAndFencesTheOneBefore(t *testing.T) {
	w := openWorld(t, t.TempDir(), nil, "n1")
	defer w.close(t)
	var dropped []shard.DropReason
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true, Observer: Observer{
		Applied: func(o shard.Outcome) { dropped = append(dropped, o.Dropped) }}})
	first := lead(t, g)
	first.mustPut(t, 1)
	second := lead(t, g)
	if second.at.Epoch <= first.at.Epoch {
		t.Errorf("epoch %d follows epoch %d", second.at.Epoch, first.at.Epoch)
	}
	if err := first.put("late", "late"); err == nil {
		t.Error("an entry of the older epoch was installed")
	}
	g.Shutdown()
	want := []shard.DropReason{shard.NotDropped, shard.NotDropped, shard.NotDropped, shard.OldEpoch}
	if fmt.Sprint(dropped) != fmt.Sprint(want) {
		t.Errorf("the observer saw %v, want %v", dropped, want)
	}
}

// A crash loses unfsynced data; no acknowledged entry may be in it.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	fs := memfs.New(dir)
	w := openWorld(t, dir, fs, "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	const n = 200
	o.mustPut(t, n)
	after := memfs.CrashClone(fs, 0, 1)
	g.Shutdown()
	w.close(t)

	w = openWorld(t, dir, after, "n1")
	defer w.close(t)
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	defer g.Shutdown()
	lead(t, g)
	mustHold(t, g, n)
}

func TestSnapshotShortensTheLogAndRestores(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, vfs.NewMem(), "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	o.mustPutAtOnce(t, trailingEntries+100)
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	var sum uint64
	g.View(func(s *shard.State) { sum = s.Sum() })
	status, last := g.Status(), g.raft.LastIndex()
	if status.SnapshotIndex == 0 || status.AppliedIndex != status.SnapshotIndex {
		t.Errorf("status after the snapshot: %+v", status)
	}
	g.Shutdown()
	log, err := openLogStore(w.db, lone.logPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if first, _ := log.FirstIndex(); first != last-trailingEntries+1 {
		t.Errorf("the log begins at %d of %d: want the last %d entries", first, last, trailingEntries)
	}
	half := filepath.Join(dir, snapshotsName, lone.snapshotsDir(), "snapshots", "1-1-1.tmp")
	if err := w.disk.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	g.View(func(s *shard.State) {
		if s.Sum() != sum {
			t.Errorf("restored state has fingerprint %x, want %x", s.Sum(), sum)
		}
	})
	if _, err := w.disk.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a half-written snapshot was left: %v", err)
	}
	lead(t, g).mustPut(t, 1)
	mustHold(t, g, trailingEntries+100)
	g.Shutdown()
	w.close(t)
}

// A snapshot that raft does not answer ends with its group: the field that untilClosed sets still exists in raft and
// still ends the wait.
func TestASnapshotWithoutAnAnswerEndsWithItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, created := t.TempDir(), make(chan struct{})
		w := openWorld(t, dir, withheld{memfs.New(dir), created}, "n1")
		defer w.close(t)
		g := w.loneGroup(t)
		defer g.Shutdown()
		defer close(created)
		lead(t, g).mustPut(t, 1)
		closed, ended := make(chan struct{}), make(chan error, 1)
		future := untilClosed(g.raft.Snapshot(), closed)
		go func() { ended <- future.Error() }()
		if synctest.Wait(); len(ended) > 0 {
			t.Fatalf("a snapshot ended before there was one: %v", <-ended)
		}
		close(closed)
		if err := await.Receive(t, "its group has ended, and it is no longer waited for",
			ended); err != raft.ErrRaftShutdown {
			t.Errorf("it ended with %v", err)
		}
	})
}

// withheld is a disk that creates no snapshot's state before a channel is closed.
type withheld struct {
	FS
	until chan struct{}
}

// Create implements FS.
func (w withheld) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if filepath.Base(name) == snapshotStateName {
		<-w.until
	}
	return w.FS.Create(name, category)
}

func TestCorruptSnapshotStopsTheReplica(t *testing.T) {
	for _, name := range []string{"state.bin", "meta.json"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := openWorld(t, dir, nil, "n1")
			defer w.close(t)
			g := w.loneGroup(t)
			lead(t, g).mustPut(t, 20)
			if err := g.Snapshot(); err != nil {
				t.Fatal(err)
			}
			g.Shutdown()
			files, err := filepath.Glob(filepath.Join(dir, snapshotsName, "*", "snapshots", "*", name))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			flipByte(t, files[0], 0)
			if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); err == nil {
				t.Error("a replica was opened from a corrupt snapshot")
			}
		})
	}
}

func flipByte(t testing.TB, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReplicaThatWasNeverCreatedIsLost(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); !errors.Is(err, ErrLost) {
		t.Errorf("opening a replica that was never created: %v", err)
	}
}

func TestReplicaThatLostItsStoresIsLost(t *testing.T) {
	losses := map[string]func(*testing.T, *world, *logStore){
		"the whole log": func(t *testing.T, _ *world, log *logStore) { mustDelete(t, log, 1, 100) },
		"its beginning": func(t *testing.T, _ *world, log *logStore) { mustDelete(t, log, 1, 2) },
		"its middle":    func(t *testing.T, _ *world, log *logStore) { mustDelete(t, log, 3, 3) },
		"the term": func(t *testing.T, w *world, _ *logStore) {
			stable := &stableStore{file: w.file, prefix: lone.stablePrefix()}
			if err := stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil {
				t.Fatal(err)
			}
		},
	}
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
			defer w.close(t)
			g := w.loneGroup(t)
			lead(t, g).mustPut(t, 10)
			g.Shutdown()
			log, err := openLogStore(w.db, lone.logPrefix())
			if err != nil {
				t.Fatal(err)
			}
			lose(t, w, log)
			if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); !errors.Is(err, ErrLost) {
				t.Errorf("opened without %s: %v", what, err)
			}
		})
	}
}

func mustDelete(t *testing.T, log *logStore, first, last uint64) {
	t.Helper()
	if err := log.DeleteRange(first, last); err != nil {
		t.Fatal(err)
	}
}

func TestCreateGroupCanBeRepeatedAndNotChanged(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 3)
	g.Shutdown()
	g = w.loneGroup(t)
	lead(t, g)
	mustHold(t, g, 3)
	if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); err == nil {
		t.Error("a replica was opened twice at once")
	}
	if err := w.Close(); err == nil {
		t.Error("the stores were closed under a running group")
	}
	g.Shutdown()
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1"), "n2/1/1"}); err == nil {
		t.Error("a replica was created again with other voters")
	}
	if err := CreateGroup(w.Stores, Replica{2, 1}, []string{"n2/2/1"}); err == nil {
		t.Error("a replica was created outside its own group")
	}
}

// A creation that stops anywhere is completed by repeating it.
func TestInterruptedCreationStartsOver(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	voters := []string{lone.Name("n1")}
	if err := w.putGroups(func(g []groupRecord) []groupRecord {
		return append(g, groupRecord{Replica: lone, Voters: voters})
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.bootstrap(lone, voters); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true}); !errors.Is(err, ErrLost) {
		t.Errorf("a half-created replica was opened: %v", err)
	}
	g := w.loneGroup(t)
	defer g.Shutdown()
	lead(t, g).mustPut(t, 1)
}

func TestGroupRefusesAnotherReplicasStreams(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	_, err := w.tryGroup(GroupConfig{Replica: lone, Stream: memnet.New().Listen("n2/1/7")})
	if err == nil || !strings.Contains(err.Error(), "n2/1/7") {
		t.Errorf("opened with another replica's streams: %v", err)
	}
}

func TestProposalsAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	g := w.loneGroup(t)
	defer g.Shutdown()
	o := lead(t, g)
	w.lowDisk.Store(true)
	var refused *shard.Error
	if err := o.put("key0", "value0"); !errors.As(err, &refused) || refused.Code != shard.Unavailable {
		t.Errorf("on a nearly full disk: %v", err)
	}
	o.at.Seq--
	w.lowDisk.Store(false)
	o.mustPut(t, 1)
}

func TestProposalsAfterShutdownAreNotApplied(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	g := w.loneGroup(t)
	o := lead(t, g)
	g.Shutdown()
	g.Shutdown()
	var refused *shard.Error
	if err := o.put("key0", "value0"); !errors.As(err, &refused) || refused.MaybeApplied() {
		t.Errorf("after shutdown: %v", err)
	}
}

func TestLeadershipIsHinted(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	hints := make(chan struct{}, 16)
	g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true, OnLeadership: func() { hints <- struct{}{} }})
	defer g.Shutdown()
	<-hints
	await.Until(t, "leadership", g.Leading)
}
