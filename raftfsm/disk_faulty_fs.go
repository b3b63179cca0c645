package raftfsm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// faultyFS is the file system that Pebble is given. It hides failed writes from Pebble, because Pebble's reactions to
// them are its own. Some of them crash the Go runtime: when the next log file cannot be opened, Pebble releases a lock
// that it does not hold. The exit status of the process then tells nothing. Instead, faultyFS sets the latch at the
// first failure. From then on the disk is left as it is, and Pebble continues on a scratch file system that is not
// trusted. Callers of Pebble check the latch before they take an operation as done (diskLatch.do, diskLatch.contain,
// Group.onOwnDisk).
//
// Read errors are left to Pebble, which reports them properly.
type faultyFS struct {
	vfs.FS
	fault   *diskLatch
	tail    *tail      // is told what is written to log files, and fsynced
	scratch *vfs.MemFS // in memory; used once the latch is set
}

func newFaultyFS(files FS, p *diskLatch, t *tail) *faultyFS {
	return &faultyFS{files, p, t, vfs.NewMem()}
}

// over reports that nothing may be written anymore.
func (f *faultyFS) over() bool { return f.fault.cause() != nil }

// failed sets the latch after an error, and reports whether there was one.
func (f *faultyFS) failed(what, name string, err error) bool {
	if err != nil { //mutant:failed-write-is-not-the-end
		f.fault.fail(writeFailed(fmt.Errorf("%s %s: %w", what, name, err)))
	}
	return err != nil
}

// writable opens a file for writing on disk, or on scratch once the latch is set.
func (f *faultyFS) writable(
	what, name string, category vfs.DiskWriteCategory, open func() (vfs.File, error),
) (vfs.File, error) {
	if !f.over() {
		file, err := open()
		if !f.failed(what, name, err) { //mutant:pebble-hears-of-a-failed-open
			return f.watch(file, name), nil
		}
	}
	if err := f.scratch.MkdirAll(f.scratch.PathDir(name), dirMode); err != nil {
		return nil, err
	}
	return f.scratch.Create(name, category)
}

// watch makes the tail track a file if it is a log file.
func (f *faultyFS) watch(file vfs.File, name string) vfs.File {
	if isLogFile(name) {
		return &failFile{file, f, name, f.tail.begun(name)}
	}
	return &failFile{file, f, name, nil}
}

// leave makes the mark name a different log file before this one is removed or reused.
func (f *faultyFS) leave(name string) error {
	//mutant:marked-log-file-goes 4
	if !isLogFile(name) {
		return nil
	}
	return f.tail.leave(name)
}

// change changes names in the file system: on disk, or on scratch once the latch is set, where most names do not exist.
func (f *faultyFS) change(what, name string, on func(vfs.FS) error) error {
	if !f.over() {
		err := on(f.FS)
		if errors.Is(err, fs.ErrNotExist) && what == "removing" { // Pebble expects that
			return err
		}
		if !f.failed(what, name, err) {
			return nil
		}
	}
	on(f.scratch)
	return nil
}

// Create implements vfs.FS.
func (f *faultyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.writable("making", name, category, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (f *faultyFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.writable("making", to, category, func() (vfs.File, error) {
		if err := f.leave(from); err != nil {
			return nil, err
		}
		return f.FS.ReuseForWrite(from, to, category)
	})
}

// OpenReadWrite implements vfs.FS.
func (f *faultyFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return f.writable("opening", name, category, func() (vfs.File, error) {
		return f.FS.OpenReadWrite(name, category, opts...)
	})
}

// OpenDir implements vfs.FS.
func (f *faultyFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil && f.over() {
		return f.scratch.OpenDir("/")
	}
	if err != nil {
		return nil, err // only while the database is being opened: later Pebble has the directories it needs
	}
	return &failFile{dir, f, name, nil}, nil
}

// Open implements vfs.FS.
func (f *faultyFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.over() {
		if file, err := f.scratch.Open(name, opts...); err == nil {
			return file, nil
		}
	}
	return f.FS.Open(name, opts...)
}

// Stat implements vfs.FS.
func (f *faultyFS) Stat(name string) (vfs.FileInfo, error) {
	if f.over() {
		if info, err := f.scratch.Stat(name); err == nil {
			return info, nil
		}
	}
	return f.FS.Stat(name)
}

// List implements vfs.FS.
func (f *faultyFS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	if f.over() {
		more, _ := f.scratch.List(dir)
		names = append(names, more...)
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	return names, err
}

// Link implements vfs.FS.
func (f *faultyFS) Link(from, to string) error {
	return f.change("linking", to, func(files vfs.FS) error { return files.Link(from, to) })
}

// Rename implements vfs.FS.
func (f *faultyFS) Rename(from, to string) error {
	return f.change("renaming", from, func(files vfs.FS) error { return files.Rename(from, to) })
}

// Remove implements vfs.FS.
func (f *faultyFS) Remove(name string) error {
	return f.change("removing", name, func(files vfs.FS) error {
		if files != f.scratch {
			if err := f.leave(name); err != nil {
				return err
			}
		}
		return files.Remove(name)
	})
}

// RemoveAll implements vfs.FS.
func (f *faultyFS) RemoveAll(name string) error {
	return f.change("removing", name, func(files vfs.FS) error { return files.RemoveAll(name) })
}

// MkdirAll implements vfs.FS.
func (f *faultyFS) MkdirAll(name string, mode os.FileMode) error {
	return f.change("making", name, func(files vfs.FS) error { return files.MkdirAll(name, mode) })
}

// failFile is a file on disk that Pebble writes to, or a directory that it fsyncs. To Pebble, each write and each fsync
// of it succeeds.
type failFile struct {
	vfs.File
	fs   *faultyFS
	name string
	log  *logFile // nil: not a log file
}

// try performs an operation on the file unless the latch is set, and reports whether it succeeded.
func (f *failFile) try(what string, call func() error) bool {
	return !f.fs.over() && !f.fs.failed(what, f.name, call())
}

// fsync also tells the tail that the written bytes are on disk.
func (f *failFile) fsync(call func() error) error {
	if f.try("fsyncing", call) && f.log != nil {
		f.fs.tail.fsynced(f.log)
	}
	return nil
}

// Write implements vfs.File.
func (f *failFile) Write(b []byte) (int, error) {
	if f.log != nil {
		f.fs.tail.wrote(f.log, b) // first: Write may change b
	}
	f.try("writing", func() error { _, err := f.File.Write(b); return err })
	return len(b), nil
}

// WriteAt implements vfs.File.
func (f *failFile) WriteAt(b []byte, at int64) (int, error) {
	f.try("writing", func() error { _, err := f.File.WriteAt(b, at); return err })
	return len(b), nil
}

// Preallocate implements vfs.File.
func (f *failFile) Preallocate(offset, length int64) error {
	f.try("writing", func() error { return f.File.Preallocate(offset, length) })
	return nil
}

// Sync implements vfs.File.
func (f *failFile) Sync() error { return f.fsync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *failFile) SyncData() error { return f.fsync(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *failFile) SyncTo(length int64) (full bool, err error) {
	f.try("fsyncing", func() error { full, err = f.File.SyncTo(length); return err })
	return full, nil
}

// Stat implements vfs.File.
func (f *failFile) Stat() (info vfs.FileInfo, err error) {
	if info, err = f.File.Stat(); f.fs.failed("looking at", f.name, err) {
		return f.fs.scratch.Stat("/")
	}
	return info, nil
}

// Close implements vfs.File.
func (f *failFile) Close() error { f.fs.failed("closing", f.name, f.File.Close()); return nil }
