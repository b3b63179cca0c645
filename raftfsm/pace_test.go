package raftfsm

import (
	"os"
	"path/filepath"
	"testing"
)

// A snapshot that is written in pieces of any size is brought to the disk after each paceBytes, and its file may be closed
// twice.
func TestPacerSyncsEveryPiece(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syncs := 0
	p, err := newPacer(path, func() bool { syncs++; return true })
	if err != nil {
		t.Fatal(err)
	}
	for range 10 * 16 {
		if err := p.wrote(paceBytes / 16); err != nil {
			t.Fatal(err)
		}
	}
	if syncs != 10 {
		t.Errorf("%d MiB were synced %d times", 10*paceBytes>>20, syncs)
	}
	for range 2 {
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.wrote(paceBytes); err == nil {
		t.Error("a file that cannot be synced is no error")
	}
	if _, err := newPacer(path+"?", nil); err == nil {
		t.Error("the pacer takes a file that is not there")
	}
}
