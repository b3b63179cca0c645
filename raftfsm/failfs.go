package raftfsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// failFS is the file system that Pebble is given. The first write or fsync that fails sets the latch here, before
// Pebble hears of it: some of Pebble's own answers, as when a full log file cannot be closed, end the process with a
// status that tells nothing.
type failFS struct {
	vfs.FS
	poison *poison
}

func (f failFS) watch(file vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return failFile{file, f.poison, name}, nil
}

// Create implements vfs.FS.
func (f failFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.watch(file, err, name)
}

// ReuseForWrite implements vfs.FS.
func (f failFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, category)
	return f.watch(file, err, to)
}

// OpenReadWrite implements vfs.FS.
func (f failFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	return f.watch(file, err, name)
}

// OpenDir implements vfs.FS.
func (f failFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.watch(file, err, name)
}

// failFile watches every call that brings bytes to the disk.
type failFile struct {
	vfs.File
	poison *poison
	name   string
}

func (f failFile) check(what string, err error) error {
	if err != nil {
		f.poison.fail(writeFailed(fmt.Errorf("%s %s: %w", what, f.name, err)))
	}
	return err
}

// Write implements vfs.File.
func (f failFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.check("writing", err)
}

// WriteAt implements vfs.File.
func (f failFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.check("writing", err)
}

// Sync implements vfs.File.
func (f failFile) Sync() error { return f.check("fsyncing", f.File.Sync()) }

// SyncData implements vfs.File.
func (f failFile) SyncData() error { return f.check("fsyncing", f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f failFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.check("fsyncing", err)
}
