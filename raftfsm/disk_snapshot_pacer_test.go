package raftfsm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A snapshot written in pieces of any size is sent to the disk after each paceBytes.
func TestPacerSyncsEveryPiece(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syncs := 0
	file, err := vfs.Default.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	p := newPacer(file, func() bool { syncs++; return true })
	for range 10 * 16 {
		if err := p.wrote(paceBytes / 16); err != nil {
			t.Fatal(err)
		}
	}
	if syncs != 10 {
		t.Errorf("%d MiB were synced %d times", 10*paceBytes>>20, syncs)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.wrote(paceBytes); err == nil {
		t.Error("a file that cannot be synced is no error")
	}
}
