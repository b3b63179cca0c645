package raftfsm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A process that its disk has ended leaves word for all after it, whatever the disk did: also if that makes no replica
// suspect.
func TestWhyTheDiskEndedAProcessIsToldToTheNext(t *testing.T) {
	for name, fault := range map[string]error{"a failed fsync": syscall.EIO, "a full disk": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			dir, disk := t.TempDir(), vfs.NewMem()
			var failing atomic.Pointer[error]
			w := failingWorld(t, dir, disk, &failing)
			if d, ok := w.LastDistrust(); ok {
				t.Errorf("a new directory says %+v", d)
			}
			g := w.loneGroup(t)
			o := lead(t, g)
			o.mustPut(t, 5)
			began := time.Now().Round(0)
			failing.Store(&fault)
			if o.put("key5", "value5") == nil {
				t.Fatal("acknowledged without an fsync")
			}
			w.mustStop(t)
			if d, ok := w.LastDistrust(); ok {
				t.Errorf("the process that ends says of one before it %+v", d)
			}
			g.Shutdown()
			w.close(t)
			failing.Store(nil)
			for range 2 { // it stays
				w = failingWorld(t, dir, disk, &failing)
				d, ok := w.LastDistrust()
				if !ok || d.At.Before(began) || d.At.After(time.Now()) || !strings.Contains(d.Why, fault.Error()) {
					t.Errorf("the next process is told %+v, %v", d, ok)
				}
				w.close(t)
			}
			w = failingWorld(t, dir, disk, &failing)
			w.Distrust(errors.New("what the stores have not seen"))
			w.close(t)
			w = failingWorld(t, dir, disk, &failing)
			if d, ok := w.LastDistrust(); !ok || d.Why != "what the stores have not seen" {
				t.Errorf("the next process is told %+v, %v", d, ok)
			}
			w.close(t)
		})
	}
}

// The word that a process leaves is a file, of which the text stays as it is. One that cannot be read keeps no node
// from starting.
func TestTheWordAboutADistrustedDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, distrustName)
	read := func(text string) (Distrust, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var m distrustMark
		err := m.load(vfs.Default, dir)
		return m.last, err
	}
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	if d, err := read(`{"Why":"a disk","At":"2026-11-24T12:00:00Z"}`); err != nil ||
		d != (Distrust{Why: "a disk", At: at}) {
		t.Errorf("read %+v, %v", d, err)
	}
	if d, err := read(`{"Why":"a di`); err != nil || d != (Distrust{}) {
		t.Errorf("read %+v, %v", d, err)
	}
	var m distrustMark
	m.leave(syscall.EIO) // before the directory's node is known
	if err := m.load(vfs.Default, dir); err != nil {
		t.Fatal(err)
	}
	m.leave(syscall.EIO)
	m.leave(syscall.ENOSPC) // the first reason is the reason
	if b, _ := os.ReadFile(file); !strings.HasPrefix(string(b), `{"Why":"input/output error","At":"`) {
		t.Errorf("the file is %s", b)
	}
}
