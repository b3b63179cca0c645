package raftfsm

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system as Pebble sees it.
type FS = vfs.FS

// StableFS is an FS that holds the StableFile too. Bolt maps its own file into memory, so bolt works on a real disk
// only.
type StableFS interface {
	FS
	OpenStable(path string) (StableFile, error)
}

// disk gives access to everything in a data directory.
type disk struct {
	FS
	small FS                                    // holds the small file and the lock
	open  func(path string) (StableFile, error) // opens the small file; creates a missing one
}

func newDisk(files FS) disk {
	switch all := files.(type) {
	case nil:
		return disk{vfs.Default, vfs.Default, openBolt}
	case StableFS:
		return disk{all, all, all.OpenStable}
	default:
		return disk{files, vfs.Default, openBolt}
	}
}

// isThere reports whether a path exists.
func isThere(files FS, path string) (bool, error) {
	_, err := files.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// makeDir creates a directory in a parent that exists, and fsyncs the parent. It fsyncs also if the directory exists
// already: the process that created it may have crashed before its fsync.
func makeDir(files FS, path string) error {
	if err := files.MkdirAll(path, dirMode); err != nil {
		return err
	}
	return syncDir(files, files.PathDir(path)) //mutant:new-directory-not-fsynced
}

// makeDirs creates a directory and its missing parents, and fsyncs each into its parent.
func makeDirs(files FS, path string) error {
	if there, err := isThere(files, path); there || err != nil {
		return err
	}
	if parent := files.PathDir(path); parent != path {
		if err := makeDirs(files, parent); err != nil {
			return err
		}
	}
	return makeDir(files, path)
}

func syncDir(files FS, path string) error {
	dir, err := files.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// draftSuffix ends the name of a file that is still being written, before it gets its final name.
const draftSuffix = ".new"

// writeWhole replaces a file. After a crash either the old or the new file is there, complete.
func writeWhole(files FS, path string, b []byte) error {
	draft := path + draftSuffix
	if err := writeSynced(files, draft, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return err
	}
	if err := files.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(files, files.PathDir(path)) //mutant:disk-mark-name-not-fsynced
}

// writeSynced creates a file and fsyncs its content. The caller must fsync its name.
func writeSynced(files FS, path string, write func(io.Writer) error) error {
	f, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close()) //mutant:disk-mark-not-fsynced
}

func readFile(files FS, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
