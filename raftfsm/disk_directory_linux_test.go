package raftfsm

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A data directory of another user is refused if anybody may change it, and used with a log line if others may only read it.
func TestOpenDataDirectoryOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a directory to another user")
	}
	for _, test := range []struct {
		mode os.FileMode
		err  string
		log  string
	}{
		{0o777, "anybody on this machine may change it", ""},
		{0o755, "", "the data directory is open to other users, and not this user's to close"},
		{0o700, "", ""},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(dir, test.mode), os.Chmod(dir, test.mode), os.Chown(dir, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		err := asNoOwner(func() error { return closeToOthers(dir, slog.New(slog.NewTextHandler(&said, nil))) })
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("mode %v: %v", test.mode, err)
		}
		if (said.Len() == 0) != (test.log == "") || !strings.Contains(said.String(), test.log) {
			t.Errorf("mode %v: the log says %q", test.mode, said.String())
		}
	}
}

// asNoOwner runs do without root's right to treat every file as its own.
func asNoOwner(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the change of its rights too
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			done <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_FOWNER
		if err := unix.Capset(&header, &data[0]); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}
