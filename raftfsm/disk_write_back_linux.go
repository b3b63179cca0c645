package raftfsm

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// writeBack waits until the written bytes of a file have been sent to the disk. Unlike an fsync it commits no journal
// and flushes no disk cache, for which the log's fdatasyncs would wait. Where sync_file_range is not available, it
// falls back to an fsync.
func writeBack(file vfs.File) error {
	if file.Fd() == vfs.InvalidFd {
		return file.Sync()
	}
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(file.Fd()), 0, 0, all) // from the beginning to the end
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return file.Sync()
	}
	return err
}
