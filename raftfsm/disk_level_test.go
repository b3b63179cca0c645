package raftfsm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stint-io/stint/shard"
)

// recordOf010 is the type into which 0.1.0 reads a directory's identity.
type recordOf010 struct {
	Identity
	Ready bool
}

func TestADirectoryCarriesItsLevelAndAnOlderBinaryRefusesIt(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	if w.Level() != shard.LevelFirst {
		t.Errorf("a new directory is at level %d", w.Level())
	}
	var old recordOf010
	if err := w.file.getJSON(keyIdentity, &old); err != nil || !old.Ready || old.Identity != testIdentity {
		t.Errorf("at the first level 0.1.0 reads %+v, %v", old, err)
	}
	for _, level := range []shard.Level{shard.LevelSound, shard.LevelFirst} { // it never falls
		if err := w.Raise(level, "0.2.0"); err != nil || w.Level() != shard.LevelSound {
			t.Fatalf("raised to %d: at %d, %v", level, w.Level(), err)
		}
	}
	if err := w.file.getJSON(keyIdentity, &old); err == nil || !strings.Contains(err.Error(), "Ready of type bool") {
		t.Errorf("0.1.0 reads a directory of level 2 as %+v, %v", old, err)
	}
	w.close(t)

	before := modified(t, dir)
	_, err := OpenStores(dir, StoresConfig{Newest: shard.LevelFirst, Fatal: func(error) {}})
	want := "data directory " + dir + ": written at level 2, this binary knows 1: start 0.2.0 or newer, or restore an older backup"
	if err == nil || err.Error() != want {
		t.Errorf("a binary of level 1 says %v, want %s", err, want)
	}
	for name, at := range modified(t, dir) {
		if !at.Equal(before[name]) {
			t.Errorf("the binary that refused the directory changed %s", name)
		}
	}
	w = openWorld(t, dir, nil, "n1")
	defer w.close(t)
	if w.Level() != shard.LevelSound {
		t.Errorf("after a restart the directory is at level %d", w.Level())
	}
}

// modified returns the modification times of the log's files and of the log's directory. (The small file is left out, because
// opening it writes to it.)
func modified(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	at := map[string]time.Time{}
	files, err := filepath.Glob(filepath.Join(dir, logName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, filepath.Join(dir, logName)) {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		at[name] = info.ModTime()
	}
	return at
}

func TestPebblesFormatIsPinnedAndRisesWithTheLevel(t *testing.T) {
	for level := shard.LevelFirst; level <= shard.LevelNewest; level++ {
		if pebbleFormats[level] < pebble.FormatWALSyncChunks {
			t.Errorf("level %d: Pebble's format is %v: a flipped byte would be taken for a torn end", level, pebbleFormats[level])
		}
		if level > shard.LevelFirst && pebbleFormats[level] < pebbleFormats[level-1] {
			t.Errorf("level %d: Pebble's format falls to %v", level, pebbleFormats[level])
		}
	}
	// 0.1.0 wrote the newest format of its Pebble, which is 24. Another number here means that 0.1.0 can no longer open one of
	// its directories after this release has used it.
	if pebbleFormats[shard.LevelFirst] != 24 {
		t.Errorf("at the first level Pebble's format is %d, and 0.1.0 wrote 24", pebbleFormats[shard.LevelFirst])
	}

	former := pebbleFormats
	t.Cleanup(func() { pebbleFormats = former })
	pebbleFormats = map[shard.Level]pebble.FormatMajorVersion{shard.LevelFirst: pebble.FormatWALSyncChunks,
		shard.LevelSound: pebble.FormatTableFormatV6}
	dir, fs := t.TempDir(), vfs.NewMem()
	w := openWorld(t, dir, fs, "n1")
	if got := w.db.FormatMajorVersion(); got != pebble.FormatWALSyncChunks {
		t.Errorf("a directory of the first level has format %v", got)
	}
	if err := w.Raise(shard.LevelSound, "0.2.0"); err != nil {
		t.Fatal(err)
	}
	if got := w.db.FormatMajorVersion(); got != pebble.FormatTableFormatV6 {
		t.Errorf("after the rise it has format %v", got)
	}
	w.close(t)

	// A raise that was interrupted after the record was written is completed by the next start.
	dir, fs = t.TempDir(), vfs.NewMem()
	w = openWorld(t, dir, fs, "n1")
	raised := w.about
	raised.Ready = readiness(shard.LevelSound)
	if err := w.file.putJSON(keyIdentity, raised); err != nil {
		t.Fatal(err)
	}
	w.close(t)
	w = openWorld(t, dir, fs, "n1")
	defer w.close(t)
	if got := w.db.FormatMajorVersion(); got != pebble.FormatTableFormatV6 {
		t.Errorf("after an interrupted rise it has format %v", got)
	}
}

func TestReadinessIsWhat010Wrote(t *testing.T) {
	for text, want := range map[string]readiness{"false": 0, "true": 1, "2": 2, "7": 7} {
		var r readiness
		if err := json.Unmarshal([]byte(text), &r); err != nil || r != want {
			t.Errorf("%s is read as %d, %v", text, r, err)
		}
		if b, err := json.Marshal(want); err != nil || string(b) != text {
			t.Errorf("%d is written as %s, %v", want, b, err)
		}
	}
}
