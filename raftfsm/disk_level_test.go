package raftfsm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stint-io/stint/shard"
)

// next is the level after those that this build knows.
const next = shard.LevelNewest + 1

// openNext opens a directory with a binary that knows the next level.
func openNext(t *testing.T, dir string) *Stores {
	t.Helper()
	s, err := OpenStores(dir, StoresConfig{Fresh: testIdentity, Newest: next, Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestADirectoryCarriesItsLevelAndAnOlderBinaryRefusesIt(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	if w.Level() != shard.LevelFirst {
		t.Errorf("a new directory is at level %d", w.Level())
	}
	w.close(t)
	s := openNext(t, dir)
	for _, level := range []shard.Level{next, shard.LevelFirst} { // it never falls
		if err := s.Raise(level, "9.9.0"); err != nil || s.Level() != next {
			t.Fatalf("raised to %d: at %d, %v", level, s.Level(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	refuses(t, dir, fmt.Sprintf("written at level %d, this binary knows 1: "+
		"start 9.9.0 or newer, or restore an older backup", next))
	s = openNext(t, dir)
	if s.Level() != next {
		t.Errorf("after a restart the directory is at level %d", s.Level())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// refuses checks that neither a node nor a recovery opens a directory, and that nothing in its log is changed.
func refuses(t *testing.T, dir, why string) {
	t.Helper()
	before := modified(t, dir)
	want := "data directory " + dir + ": " + why
	if _, err := OpenStores(dir, StoresConfig{Newest: shard.LevelFirst, Fatal: func(error) {}}); err == nil ||
		err.Error() != want {
		t.Errorf("a node says %v, want %s", err, want)
	}
	if _, err := OpenRemains(dir); shard.LevelNewest == shard.LevelFirst && (err == nil || err.Error() != want) {
		t.Errorf("a recovery says %v, want %s", err, want)
	}
	for name, at := range modified(t, dir) {
		if !at.Equal(before[name]) {
			t.Errorf("the binary that refused the directory changed %s", name)
		}
	}
}

// modified returns the modification times of the log's files and of the log's directory. (The small file is left out,
// because opening it writes to it.)
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

// A build before the first release wrote whether the directory was complete, or its level, and no format. Its records
// would be read as others, and a directory that seems incomplete would be made anew.
func TestADirectoryOfABuildBeforeTheFirstReleaseIsRefused(t *testing.T) {
	for _, ready := range []string{"false", "true", "5"} {
		dir := t.TempDir()
		w := openWorld(t, dir, nil, "n1")
		old := json.RawMessage(`{"Cluster":"c1","Node":"n1","Shards":4,"Ready":` + ready + `,"Release":"0.1.0"}`)
		if err := w.file.putJSON(keyIdentity, old); err != nil {
			t.Fatal(err)
		}
		w.close(t)
		refuses(t, dir, "was written by a build before the first release, whose formats no release reads: "+
			"move it away and start the node with an empty one")
	}
}

func TestPebblesFormatIsPinned(t *testing.T) {
	if pebbleFormat < pebble.FormatWALSyncChunks {
		t.Errorf("Pebble's format is %v: a flipped byte would be taken for a torn end", pebbleFormat)
	}
	if pebbleFormat != 24 {
		t.Errorf("Pebble's format is %d, and at the first level it is 24", pebbleFormat)
	}
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	defer w.close(t)
	if got := w.db.FormatMajorVersion(); got != pebbleFormat {
		t.Errorf("a directory has format %v", got)
	}
}
