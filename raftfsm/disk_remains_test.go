package raftfsm

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

// contents returns what a directory holds.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			found[path] = "a directory"
			return err
		}
		b, err := os.ReadFile(path)
		found[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// copyOf copies a directory that is in use: what a process leaves that is killed.
func copyOf(t *testing.T, dir string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

func remainsOf(t *testing.T, dir string) *Remains {
	t.Helper()
	r, err := OpenRemains(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestRemainsAreReadAndNotChanged: of a process that was killed, with a snapshot and the log after it, whole and torn.
func TestRemainsAreReadAndNotChanged(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	o.mustPut(t, 20)
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	o.mustPut(t, 30)
	if err := w.PutRecord("table", "kept"); err != nil {
		t.Fatal(err)
	}
	var sum, epoch, seq uint64
	g.View(func(s *shard.State) { sum, epoch, seq = s.Sum(), s.Epoch(), s.Seq() })
	status, term, last := g.Status(), g.raft.CurrentTerm(), g.raft.LastIndex()
	killed(w)
	dead := copyOf(t, dir)
	if _, err := OpenRemains(dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory in use was read: %v", err)
	}
	g.Shutdown()
	w.close(t)

	before := contents(t, dead)
	r := remainsOf(t, dead)
	if got := r.Replicas(); len(got) != 1 || got[0] != lone || r.Identity() != testIdentity {
		t.Errorf("replicas %v of %v", got, r.Identity())
	}
	var kept string
	if found, err := r.ReadRecord("table", &kept); !found || err != nil || kept != "kept" {
		t.Errorf("kept %q, %v", kept, err)
	}
	if found, err := r.ReadRecord("none", &kept); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	for range 2 {
		s, state := r.Replay(lone)
		if state == nil || state.Sum() != sum || state.Epoch() != epoch || state.Seq() != seq {
			t.Fatalf("replayed %+v to %v", s, state)
		}
		if s.Index != last || s.Term != term || s.SnapshotIndex != status.SnapshotIndex ||
			s.SnapshotIndex == 0 || s.Name != "n1/1/7" || !slices.Equal(s.Newest.Names, []string{"n1/1/7"}) ||
			s.Convicted+s.Forgetful+s.Unreadable != "" {
			t.Errorf("%+v", s)
		}
	}
	if !maps.Equal(before, contents(t, dead)) {
		t.Error("reading changed the directory")
	}
	r.Close()
	r.lock, r.db, r.file.StableFile = nil, nil, nil

	logs, err := filepath.Glob(filepath.Join(dead, logName, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	if err := os.Truncate(slices.Max(logs), 40); err != nil {
		t.Fatal(err)
	}
	torn := contents(t, dead)
	if s, _ := remainsOf(t, dead).Replay(lone); !strings.Contains(s.Forgetful, "fsynced") {
		t.Errorf("the log is torn: %+v", s)
	}
	if !maps.Equal(torn, contents(t, dead)) {
		t.Error("reading changed a torn directory, and its witness")
	}
}

// TestRemainsSayWhatSpeaksAgainstAReplica: convictions, marks of a failed disk, snapshots that are not what was
// written.
func TestRemainsSayWhatSpeaksAgainstAReplica(t *testing.T) {
	made := func(change func(w *world)) string {
		dir := t.TempDir()
		w := openWorld(t, dir, nil, "n1")
		g := w.loneGroup(t)
		lead(t, g).mustPut(t, 5)
		if err := g.Snapshot(); err != nil {
			t.Fatal(err)
		}
		g.Shutdown()
		if change != nil {
			change(w)
		}
		w.close(t)
		return dir
	}
	convicted := made(func(w *world) {
		if err := w.Convict(lone, Conviction{Why: "bits"}); err != nil {
			t.Fatal(err)
		}
	})
	if s, state := remainsOf(t, convicted).Replay(lone); s.Convicted != "bits" || state == nil {
		t.Errorf("%+v", s)
	}
	suspect := made(nil)
	if err := os.WriteFile(filepath.Join(suspect, suspectName), []byte(`[{"Shard":1,"Number":7}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _ := remainsOf(t, suspect).Replay(lone); !strings.Contains(s.Forgetful, "failed to write") {
		t.Errorf("%+v", s)
	}
	flipped := made(nil)
	pictures, err := filepath.Glob(filepath.Join(flipped, snapshotsName, "*", snapshotsInner, "*", snapshotStateName))
	if err != nil || len(pictures) != 1 {
		t.Fatal(pictures, err)
	}
	b, err := os.ReadFile(pictures[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(pictures[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, state := remainsOf(t, flipped).Replay(lone); state != nil || !strings.Contains(s.Unreadable, "crc64") {
		t.Errorf("%+v", s)
	}
	destroyed := made(func(w *world) {
		if err := DestroyGroup(w.Stores, lone); err != nil {
			t.Fatal(err)
		}
	})
	if got := remainsOf(t, destroyed).Replicas(); len(got) != 0 {
		t.Errorf("destroyed, and yet %v", got)
	}
	for want, dir := range map[string]string{"no stable.db": t.TempDir(), "did not end": made(nil)} {
		if want == "did not end" {
			if err := os.WriteFile(filepath.Join(dir, restoringName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := OpenRemains(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not %s", err, want)
		}
	}
}
