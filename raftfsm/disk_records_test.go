package raftfsm

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestWhatIsKept(t *testing.T) {
	type record struct {
		Cluster string
		Nodes   []string
	}
	dir, disk := t.TempDir(), vfs.NewMem()
	w := openWorld(t, dir, disk, "n1")
	want := record{"c1", []string{"n1", "n2"}}
	var got record
	if found, err := w.ReadRecord("formation", &got); found || err != nil {
		t.Errorf("before anything was kept: %v, %v", found, err)
	}
	for _, r := range []record{{Cluster: "old"}, want} {
		if err := w.PutRecord("formation", r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PutRecord("identity", 7); err != nil { // the same name as another record's key
		t.Fatal(err)
	}
	w.close(t)
	w = openWorld(t, dir, disk, "n1")
	defer w.close(t)
	found, err := w.ReadRecord("formation", &got)
	if !found || err != nil || got.Cluster != want.Cluster || len(got.Nodes) != 2 {
		t.Errorf("kept %+v, found %v %+v (%v)", want, found, got, err)
	}
	if w.Identity() != testIdentity {
		t.Errorf("the identity is %+v", w.Identity())
	}
	sealed, _ := w.file.Get([]byte(recordPrefix + "formation"))
	sealed[3] ^= 1
	if err := w.file.Set([]byte(recordPrefix+"formation"), sealed); err != nil {
		t.Fatal(err)
	}
	if found, err := w.ReadRecord("formation", &got); found || !errors.Is(err, ErrCorrupt) {
		t.Errorf("a flipped bit: %v, %v", found, err)
	}
}

// noMkdir is a disk on which no directory can be created: a start ends after the bolt file and before the log.
type noMkdir struct{ vfs.FS }

func (noMkdir) MkdirAll(string, fs.FileMode) error { return syscall.ENOSPC }

func TestAFreshDirectoryHasItsRecordsAsSoonAsItsIdentity(t *testing.T) {
	dir, disk := t.TempDir(), vfs.NewMem()
	config := StoresConfig{Fresh: testIdentity, FreshRecords: map[string]any{"formation": "by n1"}, FS: noMkdir{disk},
		Fatal: func(err error) { t.Error(err) }}
	if _, err := OpenStores(dir, config); err == nil {
		t.Fatal("a directory was made on a full disk")
	}
	stores, err := OpenStores(dir, StoresConfig{FS: disk, Fatal: config.Fatal}) // as after a crash
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close()
	var got string
	if found, err := stores.ReadRecord("formation", &got); !found || err != nil || got != "by n1" ||
		stores.Identity() != testIdentity {
		t.Errorf("it holds %q (%v, %v) and is %+v's", got, found, err, stores.Identity())
	}
}
