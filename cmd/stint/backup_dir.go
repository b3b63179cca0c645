package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-io/stint/internal/offline/backup"
)

// backupDir is a directory of backups, each named after the instant at which it began.
type backupDir string

// backupName is the name of a backup in a backupDir, as a layout of time.
const backupName = "stint-20060102T150405Z.backup"

// file returns the path of the backup that began at an instant.
func (d backupDir) file(begun time.Time) string {
	return filepath.Join(string(d), begun.UTC().Format(backupName))
}

// add writes a backup and reads it back, and returns shard time in it. A backup that cannot be read is an error, and
// stays for inspection.
func (d backupDir) add(begun time.Time, write func(io.Writer) error) (at time.Time, err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return at, err
	}
	name := d.file(begun)
	if err := writeAtomically(name, 0o600, write); err != nil {
		return at, err
	}
	b, err := backup.OnFile(name, backup.Read)
	if err != nil {
		return at, fmt.Errorf("%s cannot be read back: %w", name, err)
	}
	return time.UnixMicro(int64(b.System.Time())), nil
}

// prune deletes the backups of a cluster that were older than keep at an instant, except the one that began at newest.
// It reports the files that it keeps: a file is deleted only if it has the name of a backup, its sum is right, and its
// header names this cluster.
func (d backupDir) prune(s streams, cluster string, newest, at time.Time, keep time.Duration) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		fmt.Fprintf(s.err, "stint: no old backup was deleted: %v\n", err)
	}
	for _, entry := range entries {
		begun, err := time.Parse(backupName, entry.Name())
		name := filepath.Join(string(d), entry.Name())
		if err != nil || !entry.Type().IsRegular() || name == d.file(newest) || at.Sub(begun) <= keep {
			continue
		}
		if err = isOldBackup(name, cluster, at, keep); err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			fmt.Fprintf(s.err, "stint: %s is old, and was not deleted: %v\n", name, err)
		}
	}
}

// isOldBackup returns nil if a file is a backup of a cluster that was older than keep at an instant, else the reason
// why it is not.
func isOldBackup(name, cluster string, at time.Time, keep time.Duration) error {
	switch header, err := backup.OnFile(name, backup.ReadHeader); {
	case err != nil:
		return err
	case header.Cluster != cluster:
		return fmt.Errorf("it is a backup of cluster %s", header.Cluster)
	case at.Sub(time.UnixMicro(header.Begun)) <= keep:
		return errors.New("it was begun later than its name says")
	}
	return nil
}
