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

// A data directory of another user is refused, be this process root's or not. One of root's is used by others with a
// log line, and refused if anybody may change it: so Kubernetes gives volumes to a group.
func TestOpenDataDirectoryOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a directory to another user")
	}
	const nobody, somebody = 65534, 65533
	for _, test := range []struct {
		owner, user int
		mode        os.FileMode
		err         string
		log         string
	}{
		{nobody, 0, 0o777, "belongs to user 65534", ""},
		{nobody, 0, 0o777 | os.ModeSticky, "belongs to user 65534", ""},
		{nobody, 0, 0o700, "belongs to user 65534", ""},
		{nobody, somebody, 0o770, "belongs to user 65534", ""},
		{nobody, nobody, 0o700, "", ""},
		{nobody, nobody, 0o755, "", "the data directory was open to other users: closed it"},
		{0, nobody, 0o777, "anybody on this machine may change it", ""},
		{0, nobody, 0o770, "", "the data directory is open to other users, and not this user's to close"},
		{0, nobody, 0o755, "", "the data directory is open to other users, and not this user's to close"},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "data")
		if err := errors.Join(os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755), os.Mkdir(dir, 0o700),
			os.Chown(dir, test.owner, test.owner), os.Chmod(dir, test.mode)); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		err := asUser(test.user, func() error { return closeToOthers(dir, slog.New(slog.NewTextHandler(&said, nil))) })
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v: %v", test, err)
		}
		if (said.Len() == 0) != (test.log == "") || !strings.Contains(said.String(), test.log) {
			t.Errorf("%+v: the log says %q", test, said.String())
		}
		if info, _ := os.Stat(dir); test.err != "" && info.Mode()&^os.ModeDir != test.mode {
			t.Errorf("%+v: the refused directory was changed to %v", test, info.Mode())
		}
	}
}

// asUser runs do with the rights of another user.
func asUser(user int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the change of its rights too
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			done <- errno
			return
		}
		done <- do()
	}()
	return <-done
}
