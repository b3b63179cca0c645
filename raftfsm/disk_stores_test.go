package raftfsm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

func TestDataDirectoryServesOneProcess(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	if _, err := OpenStores(dir, StoresConfig{Fresh: testIdentity}); err == nil ||
		!strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened a second time: %v", err)
	}
	w.close(t)
	openWorld(t, dir, nil, "n1").close(t)
}

func TestDataDirectoryBelongsToOneNode(t *testing.T) {
	dir := t.TempDir()
	openWorld(t, dir, nil, "n1").close(t)
	_, err := OpenStores(dir, StoresConfig{Fresh: testIdentity, Node: "n2"})
	if err == nil || !strings.Contains(err.Error(), `belongs to node "n1"`) {
		t.Errorf("opened by another node: %v", err)
	}
	fresh := Identity{Cluster: "another", Node: "n9"}
	s, err := OpenStores(dir, StoresConfig{Fresh: fresh, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Identity() != testIdentity {
		t.Errorf("identity became %+v", s.Identity())
	}
	s.Close()
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	w := openWorld(t, dir, nil, "n1")
	w.loneGroup(t).Shutdown()
	w.close(t)
	for path, want := range map[string]os.FileMode{"": 0o700, logName: 0o700, snapshotsName: 0o700, boltName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v, want %v (%v)", path, info.Mode().Perm(), want, err)
		}
	}
}

func TestDataDirectoryThatLostAPartIsRefused(t *testing.T) {
	for _, part := range []string{boltName, logName} {
		dir := t.TempDir()
		openWorld(t, dir, nil, "n1").close(t)
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStores(dir, StoresConfig{Fresh: testIdentity}); !errors.Is(err, ErrLost) {
			t.Errorf("opened without %s: %v", part, err)
		}
	}
}

func TestInterruptedDirectoryStartsOver(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	if err := w.file.putJSON(keyIdentity, identityRecord{Identity: testIdentity, Format: directoryFormat}); err != nil {
		t.Fatal(err)
	}
	w.close(t)
	w = openWorld(t, dir, nil, "n1")
	defer w.close(t)
	g := w.loneGroup(t)
	defer g.Shutdown()
	lead(t, g).mustPut(t, 1)
}

// fullFS is nearly full.
type fullFS struct{ FS }

func (fullFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: diskFloorBytes - 1}, nil
}

func TestLowDiskIsNoticed(t *testing.T) {
	w := openWorld(t, t.TempDir(), fullFS{vfs.NewMem()}, "n1")
	defer w.close(t)
	await.Until(t, "notice of a full disk", w.LowDisk)
}

func openBoltFile(t *testing.T, path string) boltFile {
	t.Helper()
	file, err := openBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	return boltFile{file, new(diskLatch), new(watchdog)}
}

// R5: between the two calls of a vote nothing has happened yet.
func TestVoteIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stable.db")
	file := openBoltFile(t, path)
	s := &stableStore{file: file, prefix: "1-1/"}
	if _, err := s.GetUint64([]byte(keyVoteTerm)); err != errNotFound || err.Error() != "not found" {
		t.Errorf("raft compares the text of %v", err)
	}
	if _, err := s.Get([]byte(keyVoteFor)); err != errNotFound {
		t.Errorf("no vote yet: %v", err)
	}
	mustVote(t, s, 5, "n2/1/1")
	if err := s.SetUint64([]byte(keyVoteTerm), 6); err != nil {
		t.Fatal(err)
	}
	for range 2 { // in the running process, and after a crash at this point
		if term, candidate := vote(t, s); term != 5 || candidate != "n2/1/1" {
			t.Errorf("half a vote for term 6: term %d, candidate %q", term, candidate)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		file = openBoltFile(t, path)
		s = &stableStore{file: file, prefix: "1-1/"}
	}
	defer file.Close()
	mustVote(t, s, 6, "n3/1/1")
	if term, candidate := vote(t, s); term != 6 || candidate != "n3/1/1" {
		t.Errorf("vote is term %d, candidate %q", term, candidate)
	}
	if err := s.Set([]byte(keyVoteFor), []byte("n9")); err == nil {
		t.Error("a candidate without a term was stored")
	}
	other := &stableStore{file: file, prefix: "2-1/"}
	if _, err := other.Get([]byte(keyVoteFor)); err != errNotFound {
		t.Errorf("another group's vote: %v", err)
	}
}

func mustVote(t *testing.T, s *stableStore, term uint64, candidate string) {
	t.Helper()
	err := errors.Join(s.SetUint64([]byte(keyVoteTerm), term), s.Set([]byte(keyVoteFor), []byte(candidate)))
	if err != nil {
		t.Fatal(err)
	}
}

func vote(t *testing.T, s *stableStore) (uint64, string) {
	t.Helper()
	term, err := s.GetUint64([]byte(keyVoteTerm))
	candidate, err2 := s.Get([]byte(keyVoteFor))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return term, string(candidate)
}

func TestCorruptTermIsNotRead(t *testing.T) {
	file := openBoltFile(t, filepath.Join(t.TempDir(), "stable.db"))
	defer file.Close()
	s := &stableStore{file: file, prefix: "1-1/"}
	if err := s.SetUint64([]byte(keyCurrentTerm), 9); err != nil {
		t.Fatal(err)
	}
	sealed, _ := file.Get([]byte("1-1/CurrentTerm"))
	sealed[7] ^= 1
	if err := file.Set([]byte("1-1/CurrentTerm"), sealed); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetUint64([]byte(keyCurrentTerm)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("read a corrupt term: %v", err)
	}
}

func TestLogStore(t *testing.T) {
	w := openWorld(t, t.TempDir(), vfs.NewMem(), "n1")
	defer w.close(t)
	log, neighbour := mustOpenLog(t, w), &logStore{db: w.db, prefix: Replica{1, 8}.logPrefix()}
	bounds := func(first, last uint64) {
		t.Helper()
		for _, l := range []*logStore{log, mustOpenLog(t, w)} { // as cached, and as read from disk
			gotFirst, _ := l.FirstIndex()
			gotLast, _ := l.LastIndex()
			if gotFirst != first || gotLast != last {
				t.Errorf("log is %d to %d, want %d to %d", gotFirst, gotLast, first, last)
			}
		}
	}
	store := func(l *logStore, from, to uint64) {
		t.Helper()
		var logs []*raft.Log
		for i := from; i <= to; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: 1, Data: []byte{byte(i)}})
		}
		if err := l.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	bounds(0, 0)
	store(neighbour, 1, 3)
	store(log, 1, 10)
	bounds(1, 10)
	mustDelete(t, log, 8, 10) // a conflicting end
	bounds(1, 7)
	store(log, 8, 9)
	mustDelete(t, log, 1, 4) // compaction
	bounds(5, 9)
	store(log, 100, 101) // after an installed snapshot
	mustDelete(t, log, 5, 50)
	bounds(100, 101)
	if err := log.GetLog(50, new(raft.Log)); err != raft.ErrLogNotFound {
		t.Errorf("raft compares the identity of %v", err)
	}
	var entry raft.Log
	if err := log.GetLog(100, &entry); err != nil || entry.Data[0] != 100 {
		t.Errorf("entry 100 is %+v, %v", entry, err)
	}
	mustDelete(t, log, 0, math.MaxUint64-1)
	bounds(0, 0)
	if err := neighbour.GetLog(2, &entry); err != nil {
		t.Errorf("the neighbour lost an entry: %v", err)
	}
}

func TestLogEntryCodec(t *testing.T) {
	for _, want := range []raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration},
		{Index: 1 << 40, Term: 3, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Unix(5, 6)},
		{Index: 7, Term: 1, Data: make([]byte, shard.MaxEntryBytes)},
	} {
		b := appendLog(nil, &want)
		if got := sizeOfLog(&want); got != len(b) {
			t.Errorf("an entry of %d bytes was expected to take %d", len(b), got)
		}
		var got raft.Log
		if err := decodeLog(b, want.Index, &got); err != nil {
			t.Fatal(err)
		}
		if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type ||
			!got.AppendedAt.Equal(want.AppendedAt) || !slices.Equal(got.Data, want.Data) ||
			!slices.Equal(got.Extensions, want.Extensions) {
			t.Errorf("wrote %+v, read %+v", want, got)
		}
		if err := decodeLog(b, want.Index+1, &got); !errors.Is(err, ErrCorrupt) {
			t.Errorf("an entry was read in another's place: %v", err)
		}
		for i := range min(len(b), 100) {
			b[i] ^= 0x10
			if err := decodeLog(b, want.Index, &got); !errors.Is(err, ErrCorrupt) {
				t.Errorf("byte %d was flipped: %v", i, err)
			}
			b[i] ^= 0x10
		}
	}
}

func FuzzDecodeLog(f *testing.F) {
	f.Add(appendLog(nil, &raft.Log{Index: 9, Term: 2, Data: []byte("data"), Extensions: []byte("e")}), uint64(9))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, index uint64) {
		var log raft.Log
		if decodeLog(b, index, &log) != nil {
			return
		}
		if got := appendLog(nil, &log); log.Index != index || decodeLog(got, index, &log) != nil {
			t.Errorf("%x reads as %+v, which does not read back", b, log)
		}
	})
}
