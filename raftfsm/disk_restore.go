package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// restoringName exists in a directory from before RestoreStores writes anything until all of it is on disk. A directory
// with it is not opened: half a restore must not start.
const restoringName = "restoring"

// errRestoring is the error of a directory with a restore that has not ended.
var errRestoring = errors.New("holds a restore that did not end: run stint restore again, or empty it")

// RestoreStores creates a data directory and fills it. dir must be empty, or not exist, or hold a restore that did not
// end, which starts over. fill makes the groups (SeedGroup). When RestoreStores returns nil, the directory is complete
// and on disk; until then OpenStores refuses it, also after a crash.
func RestoreStores(dir string, cfg StoresConfig, fill func(*Stores) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return during("data directory "+dir, restoreStores(newDisk(cfg.FS), dir, cfg, fill))
}

func restoreStores(d disk, dir string, cfg StoresConfig, fill func(*Stores) error) error {
	if err := makeDirs(d.small, dir); err != nil {
		return err
	}
	lock, err := d.small.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return lockError(err, "restore into an empty one")
	}
	if err := clearForRestore(d, dir); err != nil {
		return errors.Join(err, lock.Close())
	}
	cfg.filling = lock
	stores, err := OpenStores(dir, cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(stores), stores.Close()); err != nil {
		return err
	}
	if err := d.small.Remove(filepath.Join(dir, restoringName)); err != nil {
		return err
	}
	return syncDir(d.small, dir)
}

// clearForRestore marks an empty directory, or removes what a restore that did not end has left.
func clearForRestore(d disk, dir string) error {
	names, err := d.small.List(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == lockName || name == "lost+found" })
	begun := slices.ContainsFunc(names, func(name string) bool {
		return name == restoringName || name == restoringName+draftSuffix
	})
	if len(names) > 0 && !begun {
		return fmt.Errorf("is not empty (it has %q): a restore needs an empty one, or one that does not exist",
			names[0])
	}
	if err := writeWhole(d.small, filepath.Join(dir, restoringName), []byte("stint restore\n")); err != nil {
		return err
	}
	for _, name := range names {
		if name != restoringName {
			if err := d.small.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return syncDir(d.small, dir)
}

// refuseRestoring refuses a directory with a restore that has not ended.
func (s *Stores) refuseRestoring(filling io.Closer) error {
	there, err := isThere(s.disk.small, filepath.Join(s.dir, restoringName))
	if err == nil && there && filling == nil { //mutant:half-a-restore-starts
		err = errRestoring
	}
	return err
}
