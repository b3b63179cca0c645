package raftfsm

import (
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readOnlyFS refuses every change, so that nothing depends on what a library means by reading.
type readOnlyFS struct{ vfs.FS }

var errReadOnly = fmt.Errorf("raftfsm: the directory is evidence: %w", syscall.EROFS)

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

func (readOnlyFS) Link(string, string) error { return errReadOnly }

func (readOnlyFS) Remove(string) error { return errReadOnly }

func (readOnlyFS) RemoveAll(string) error { return errReadOnly }

func (readOnlyFS) Rename(string, string) error { return errReadOnly }

func (readOnlyFS) MkdirAll(string, fs.FileMode) error { return errReadOnly }

func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// Lock is a no-op: the caller already holds the directory lock.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
