package shard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The goldens of a release are written by its own code and kept forever. In that release's tree
//
//	go test -run TestEveryRelease ./shard -release=0.2.0
//
// makes testdata/releases/0.2.0.*. Those of 0.1.0 (061d6c2) were made in its tree by this file, with one difference: its
// owners logged their fingerprint instead of a sum entry: EncodeSumCheck(w.stamp(), w.s.Sum()).
var writeRelease = flag.String("release", "", "write this release's log and snapshot to testdata/releases")

// writeMixed is for `make upgrade`: the log and snapshot of this release in a cluster with voters of 0.1.0.
var writeMixed = flag.String("release.mixed", "", "write a log and a snapshot of the first level to this directory")

// released is the result of a release's log and snapshot on its own replica.
type released struct {
	Entries    int    // of the log
	Dropped    int    // of them, by the fence
	SnapshotAt int    // entries before the snapshot
	Records    int    // those that still matter at the log's end
	Sum        string // sha256 of their keys, ends and values in the order of the keys
}

// recordsOf counts the records that still matter and hashes them. Swept records, the layout of the table and its sums
// differ between releases and are left out.
func recordsOf(s *State) (count int, sum string) {
	h, all := sha256.New(), allRecords(s.table)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		r := all[key]
		if r.ForgetAt <= s.time {
			continue
		}
		count++
		for _, part := range [][]byte{[]byte(key), binary.BigEndian.AppendUint64(nil, uint64(r.ForgetAt)), r.Value} {
			h.Write(binary.AppendUvarint(nil, uint64(len(part))))
			h.Write(part)
		}
	}
	return count, hex.EncodeToString(h.Sum(nil))
}

// TestEveryReleasesLogAndSnapshotReplayToTheirSum: the log of an older release is installed completely, despite the sums
// of its own layout in it, and leads to that release's records. So does its snapshot with the rest of the log.
func TestEveryReleasesLogAndSnapshotReplayToTheirSum(t *testing.T) {
	if *writeRelease != "" {
		theStory(t)
	}
	if *writeMixed != "" {
		theMixedStory(t)
	}
	names, err := filepath.Glob(releaseFile("*", "json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no release is here: %v", err)
	}
	for _, name := range names {
		release := filepath.Base(name[:len(name)-len(".json")])
		t.Run(release, func(t *testing.T) {
			var want released
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			log := readLog(t, release)
			if len(log) != want.Entries {
				t.Fatalf("the log has %d entries, want %d", len(log), want.Entries)
			}
			s := NewState(3)
			if dropped := replay(t, s, log, 0); dropped != want.Dropped {
				t.Errorf("%d entries were dropped, want %d", dropped, want.Dropped)
			}
			want.of(t, "the log", s)
			s, err = Restore(3, bytes.NewReader(gunzip(t, releaseFile(release, "snapshot.gz"))))
			if err != nil {
				t.Fatal(err)
			}
			replay(t, s, log, want.SnapshotAt)
			want.of(t, "the snapshot and the rest of the log", s)
			goOn(t, s, log)
		})
	}
}

// goOn makes this release the owner of the shard, at the first level and then at the newest, and uses everything that
// exists: the same keys, ids, holds, sessions and operations. No record may be unreadable.
func goOn(t *testing.T, s *State, log [][]byte) {
	t.Helper()
	w := newReleaseStory(t)
	w.s, w.now, w.log, w.goes = s, s.Time(), slices.Clone(log), true
	for _, level := range []Level{LevelFirst, LevelNewest} {
		w.level = uint32(level)
		w.begin()
		for _, name := range []string{"a", "b", "c"} {
			w.everything(name)
		}
		w.goes = false
		w.everything(fmt.Sprint("at level ", level))
		w.many(0, 2500)
		w.goes = true
	}
}

func (want released) of(t *testing.T, what string, s *State) {
	t.Helper()
	if count, sum := recordsOf(s); count != want.Records || sum != want.Sum {
		t.Errorf("%s: %d records of sum %s, want %d of %s", what, count, sum, want.Records, want.Sum)
	}
	audit(t, s.table)
}

// replay installs the entries from an index on, and returns how many the fence drops.
func replay(t *testing.T, s *State, log [][]byte, from int) (dropped int) {
	t.Helper()
	for i := from; i < len(log); i++ {
		outcome, err := s.Install(log[i], uint64(i+1), 1)
		if err != nil {
			t.Fatalf("entry %d of %d halts the replica: %v", i+1, len(log), err)
		}
		if outcome.Dropped != NotDropped {
			dropped++
		}
	}
	return dropped
}

// manyRecords was 70,000 in the log of 0.1.0, more than its sweep could search in one entry. That log covers this case.
const manyRecords = 5000

// theStory writes a release's files.
func theStory(t *testing.T) {
	t.Helper()
	w := newReleaseStory(t)
	var head bytes.Buffer
	w.begin()
	w.everything("a")
	for from := 0; from < manyRecords; from += 2500 {
		w.many(from, 2500)
		if from%10_000 == 0 {
			w.sum()
		}
	}
	w.put(EncodeBatch(Stamp{Position: Position{Shard: 3, Epoch: 99, Seq: 1}, Now: w.now}, nil)) // of a deposed owner
	w.sum()
	if _, err := w.s.Snapshot().WriteTo(&head); err != nil {
		t.Fatal(err)
	}
	w.taken = len(w.log)
	w.everything("b")
	for range 40 { // idle: more than ten minutes pass, and records with that lifetime end
		w.now += 20_000_000
		w.sum()
	}
	w.put(EncodeEpochOpen(3, w.now))
	w.everything("c")
	w.sum()
	w.write(head.Bytes())
}

// theMixedStory is decided at the first level, so that 0.1.0 can read it.
func theMixedStory(t *testing.T) {
	t.Helper()
	w := newReleaseStory(t)
	w.level = uint32(LevelFirst)
	w.begin()
	w.everything("a")
	w.many(0, 2500)
	w.everything("b")
	var head bytes.Buffer
	if _, err := w.s.Snapshot().WriteTo(&head); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{"log.gz": zipped(t, w.logged()), "snapshot.gz": zipped(t, head.Bytes())} {
		if err := os.WriteFile(filepath.Join(*writeMixed, "mixed."+what), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *releaseStory) stamp() Stamp {
	w.now += 1000
	return Stamp{Position: Position{Shard: 3, Epoch: w.s.Epoch(), Seq: w.s.Seq() + 1}, Now: w.now, Level: Level(w.level)}
}

func (w *releaseStory) sum() {
	if Level(w.level) != LevelFirst { // 0.1.0 halts at a sum entry
		w.put(EncodeSum(w.stamp()))
	}
}

func (w *releaseStory) write(snapshot []byte) {
	about := released{Entries: len(w.log), Dropped: 1, SnapshotAt: w.taken}
	about.Records, about.Sum = recordsOf(w.s)
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join("testdata", "releases"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for what, b := range map[string][]byte{"json": append(text, '\n'), "log.gz": zipped(w.t, w.logged()), "snapshot.gz": zipped(w.t, snapshot)} {
		if err := os.WriteFile(releaseFile(*writeRelease, what), b, 0o644); err != nil {
			w.t.Fatal(err)
		}
		w.t.Logf("%s: %d bytes", what, len(b))
	}
}

// logged returns the log in the format of readLog.
func (w *releaseStory) logged() (log []byte) {
	for _, payload := range w.log {
		log = append(binary.AppendUvarint(log, uint64(len(payload))), payload...)
	}
	return log
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
