package memfs

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashable is Pebble's disk in memory. Some of Pebble's operations take the read lock against CrashClone twice, one
// inside the other, and wait forever if a CrashClone asks for the lock in between (seen in Pebble 2.1.7). So they take
// turns with it.
type crashable struct {
	*vfs.MemFS

	cloning sync.Mutex // held during a CrashClone, and during each of the operations below
}

// Link implements FS.
func (c *crashable) Link(from, to string) error {
	c.cloning.Lock()
	defer c.cloning.Unlock()
	return c.MemFS.Link(from, to)
}

// Lock implements FS.
func (c *crashable) Lock(name string) (io.Closer, error) {
	c.cloning.Lock()
	defer c.cloning.Unlock()
	return c.MemFS.Lock(name)
}

// ReuseForWrite implements FS.
func (c *crashable) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.cloning.Lock()
	defer c.cloning.Unlock()
	return c.MemFS.ReuseForWrite(from, to, category)
}
