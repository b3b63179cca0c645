package raftfsm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writeBack waits until what was written to a file has been sent to the disk. Unlike an fsync it commits no journal and
// empties no cache of the disk, for which the log's fdatasyncs would wait.
// A file system that knows nothing of it leaves the bytes to the fsync at the end.
func writeBack(file *os.File) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(file.Fd()), 0, 0, all) // from the beginning to the end
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return file.Sync()
	}
	return err
}
