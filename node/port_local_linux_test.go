package node

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that asks a node by its data directory tells nothing to somebody who has put a socket of his own there.
func TestASocketOfAStrangerIsNotAsked(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	const nobody, somebody = 65534, 65533
	for _, test := range []struct {
		owner, listens, asks int
		served               bool
	}{
		{nobody, nobody, 0, true}, // a service's own user, asked by root
		{nobody, somebody, 0, false},
		{0, nobody, 0, false},
		{0, nobody, nobody, true}, // a volume of Kubernetes
		{0, 0, nobody, true},
		{nobody, somebody, nobody, false},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "data")
		if err := errors.Join(os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755), os.Mkdir(dir, 0o700),
			os.Chown(dir, test.owner, test.owner), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		var listener net.Listener
		if err := asUser(test.listens, func() (err error) {
			listener, err = net.Listen("unix", filepath.Join(dir, localSocket))
			return errors.Join(err, os.Chmod(filepath.Join(dir, localSocket), 0o777))
		}); err != nil {
			t.Fatal(err)
		}
		err := asUser(test.asks, func() error {
			conn, err := DialLocal(t.Context(), dir)
			if err == nil {
				conn.Close()
			}
			return err
		})
		listener.Close()
		if (err == nil) != test.served || err != nil && !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("%+v: %v", test, err)
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
