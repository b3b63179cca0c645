package testcluster

import (
	"context"
	"os"
	"syscall"
	"time"
)

// TB is the part of testing.TB that a test's cluster needs. `stint tool verify` must not link the package testing.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Log(args ...any)
	Fatal(args ...any)
}

// patience bounds the start of a test's nodes. It implies nothing about how fast they should be.
const patience = 2 * time.Minute

// Prepare is New for a test: the cluster is closed with it, and if the test failed it shows the logs of the nodes.
// Options without a binary get that of Binary, and without a directory one in memory.
func Prepare(t TB, o Options) *Cluster {
	t.Helper()
	var err error
	if o.Binary == "" {
		if o.Binary, err = Binary(); err != nil {
			t.Fatal(err)
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp(InMemory(), "stint-test-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(o.Dir) })
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

// Run is Start for a test: see Prepare.
func Run(t TB, o Options) *Cluster {
	t.Helper()
	c := Prepare(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := begin(ctx, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// InMemory returns a directory for the data of a test's nodes, on a file system in memory, or "" if the machine has
// none with room. A node ends itself when its disk does not answer for two seconds, which happens on a busy machine.
func InMemory() string {
	const shm, room = "/dev/shm", 256 << 20
	var is syscall.Statfs_t
	if err := syscall.Statfs(shm, &is); err != nil || is.Bavail*uint64(is.Bsize) < room {
		return ""
	}
	return shm
}
