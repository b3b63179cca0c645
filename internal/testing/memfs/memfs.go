package memfs

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the type of raftfsm.StoresConfig.FS.
type FS = vfs.FS

// New creates a disk that is empty except for the given directories, which are fsynced: the data directories of the
// nodes that will use it.
func New(dirs ...string) FS {
	fs := &crashable{MemFS: vfs.NewCrashableMem()}
	for _, dir := range dirs {
		if err := makeDir(fs, dir); err != nil {
			panic(fmt.Sprintf("memfs: making %s: %v", dir, err)) // memory does not fail
		}
	}
	return fs
}

// NewLasting creates an empty disk that never loses power: each write lasts, so an fsync copies nothing. On one from
// New, each fsync of a log copies all of it, which was a quarter of the processor time of a node's tests.
func NewLasting() FS { return vfs.NewMem() }

// makeDir makes a directory and those above it, and fsyncs them all: a crash keeps them.
func makeDir(fs FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for path := dir; ; path = fs.PathDir(path) {
		if err := syncDir(fs, path); err != nil || path == fs.PathDir(path) {
			return err
		}
	}
}

// syncDir fsyncs a directory: then the names in it last.
func syncDir(fs FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// CrashClone returns the disk as a power cut at this moment leaves it: all fsynced data, and about keepUnsyncedPercent
// percent of the unfsynced data, chosen by the seed. The original disk stays usable; it must come from New, NewDisk or
// CrashClone.
func CrashClone(fs FS, keepUnsyncedPercent int, seed int64) FS {
	if disk, ok := fs.(*Disk); ok {
		fs = disk.FS
	}
	original := fs.(*crashable)
	original.cloning.Lock()
	defer original.cloning.Unlock()
	return &crashable{MemFS: original.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: keepUnsyncedPercent,
		RNG:                 rand.New(rand.NewPCG(uint64(seed), 0)),
	})}
}

// Copy returns a copy of a disk from NewLasting.
func Copy(d *Disk) FS {
	to := NewLasting()
	if ok, err := vfs.Clone(d.FS, to, "/", "/"); !ok || err != nil {
		panic(fmt.Sprintf("memfs: copying a disk: %v", err)) // memory does not fail
	}
	return to
}

// Move renames a file or a directory within its parent and fsyncs the parent. It also serves to give a data directory
// to another process.
func Move(fs FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(to))
}
