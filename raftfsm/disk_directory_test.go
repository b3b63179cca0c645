package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A data directory that is open to other users is closed, with a log line.
func TestOpenDataDirectoryIsClosed(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o755, 0o770} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		s, err := OpenStores(dir, StoresConfig{Fresh: testIdentity, Fatal: func(error) {},
			Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("mode %v became %v, %v", mode, info.Mode(), err)
		}
		if !strings.Contains(said.String(), "was open to other users") {
			t.Errorf("nobody was told: %s", said.String())
		}
	}
}

// There is a link in place of a file that is to be written: the target of the link is not touched.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, name := range []string{lockName, boltName, tailName, tailName + draftSuffix, suspectName,
		suspectName + draftSuffix} {
		dir, precious := t.TempDir(), filepath.Join(t.TempDir(), "precious")
		if err := errors.Join(os.WriteFile(precious, []byte("text"), 0o600),
			os.Symlink(precious, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		_, err := OpenStores(dir, StoresConfig{Fresh: testIdentity, Fatal: func(error) {}})
		if err == nil || !strings.Contains(err.Error(), name+" is not a regular file") {
			t.Errorf("%s leads elsewhere: %v", name, err)
		}
		if b, _ := os.ReadFile(precious); string(b) != "text" {
			t.Errorf("%s was followed: %q", name, b)
		}
	}
}

// The small file is truncated anywhere, or any part of it is overwritten. The result is an error and never a memory
// fault in bbolt's mapping, on a goroutine where panics cannot be recovered.
func TestDamagedSmallFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	for i := range 100 { // more than a page
		if err := w.PutRecord(fmt.Sprint("record ", i), strings.Repeat("x", 200)); err != nil {
			t.Fatal(err)
		}
	}
	w.close(t)
	whole, err := os.ReadFile(filepath.Join(dir, boltName))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), boltName)
	try := func(what string, b []byte) (opened bool) {
		t.Helper()
		os.Remove(path)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&diskLatch{logger: quiet.to, fatal: func(error) {}}).contain(func() error {
			file, err := openBolt(path)
			if err != nil {
				return err
			}
			f := boltFile{file, new(diskLatch), new(watchdog)}
			for i := range 100 {
				f.get(fmt.Sprint(recordPrefix, "record ", i))
			}
			return errors.Join(f.put("key", []byte("value")), f.Close())
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	if !try("whole", whole) {
		t.Fatal("a sound file is refused")
	}
	for _, n := range []int{0, 1, 100, 4096, 8192, 12288, len(whole) / 2, len(whole) - 4096} {
		if try(fmt.Sprint(n, " bytes of it"), whole[:n]) && n < 12288 {
			t.Errorf("%d of %d bytes were opened", n, len(whole))
		}
	}
	for page := 2; page < len(whole)/4096; page++ { // each in turn claims the next page, and the one after that
		for more := range byte(2) {
			harmed := bytes.Clone(whole)
			harmed[page*4096+12] = more + 1
			try(fmt.Sprintf("page %d with %d more", page, more+1), harmed)
		}
	}
	chance, refused := rand.New(rand.NewPCG(1, 0)), 0
	for range 100 {
		harmed := bytes.Clone(whole)
		at := chance.IntN(len(harmed))
		switch chance.IntN(3) {
		case 0:
			harmed[at] ^= 1 << chance.IntN(8)
		case 1:
			clear(harmed[at:min(len(harmed), at+512)])
		case 2: // a page's header, where damage matters most
			at = at/4096*4096 + chance.IntN(64)
			harmed[at] = byte(chance.Uint32())
		}
		if !try(fmt.Sprintf("harm at %d", at), harmed) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no harm was seen")
	}
}

// The small file becomes shorter under a running process.
func TestSmallFileThatIsCutUnderAProcessStopsIt(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 1)
	if err := os.Truncate(filepath.Join(dir, boltName), 0); err != nil {
		t.Fatal(err)
	}
	isolate(func() error {
		(&guardedStable{&stableStore{file: w.file, prefix: lone.stablePrefix()}, g.guard, &g.unsynced}).
			SetUint64([]byte(keyCurrentTerm), 99)
		t.Error("a term was written to nowhere")
		return nil
	})
	if cause := w.mustStop(t); !errors.Is(cause, ErrCorrupt) {
		t.Errorf("stopped by %v", cause)
	}
	g.Shutdown()
	close(w.stop) // bbolt never releases the locks that it held when it met the fault
	w.watching.Wait()
	isolate(w.db.Close)
	w.lock.Close()
}

// A lock that cannot be written is no other process.
func TestADirectoryThatCannotBeLockedSaysWhy(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{
		{&fs.PathError{Op: "open", Path: lockName, Err: syscall.EROFS},
			"cannot be written: open LOCK: read-only file system"},
		{&fs.PathError{Op: "open", Path: lockName, Err: syscall.ENOSPC},
			"cannot be written: open LOCK: no space left on device"},
		{syscall.EAGAIN, "in use by another process (resource temporarily unavailable): stop it"},
	} {
		if err := lockError(c.err, "stop it"); err.Error() != c.says || !errors.Is(err, c.err) {
			t.Errorf("after %v: %v", c.err, err)
		}
	}
}
