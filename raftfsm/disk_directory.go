package raftfsm

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// closeToOthers makes sure that no other user of the machine can change or read a data directory. Its owner could,
// whatever its mode.
func closeToOthers(dir string, logger *slog.Logger) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to user %d, who could change it under this process of user %d: "+
			"run stint as its owner, or change the owner", stat.Uid, os.Geteuid())
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 { //mutant:data-directory-open-to-all
		return nil
	}
	switch err := os.Chmod(dir, mode&0o700); {
	case err == nil:
		logger.Warn("the data directory was open to other users: closed it", "dir", dir, "mode", mode)
	case mode&0o002 != 0:
		return fmt.Errorf("anybody on this machine may change it (mode %v), and it is not this user's to close (%w): "+
			"change its owner, or use a directory in it", mode, err)
	default:
		logger.Warn("the data directory is open to other users, and not this user's to close", "dir", dir, "mode", mode)
	}
	return nil
}

// lockError tells a directory that another process has from one with a lock that cannot be opened: its file system is
// read-only, or full.
func lockError(err error, do string) error {
	var opening *fs.PathError
	if errors.As(err, &opening) {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return fmt.Errorf("in use by another process (%w): %s", err, do)
}

// noLinks refuses symbolic links in place of the small files that are written in place: a write would overwrite the
// target of the link. bbolt's file has a check of its own (checkBolt).
func noLinks(dir string) error {
	for _, name := range []string{lockName, tailName, tailName + draftSuffix, suspectName, suspectName + draftSuffix,
		distrustName, distrustName + draftSuffix} {
		if err := mayWrite(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func mayWrite(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() { //mutant:lock-follows-links
		err = fmt.Errorf("%s is not a regular file (its type is %v): remove it", path, info.Mode().Type())
	}
	return err
}
