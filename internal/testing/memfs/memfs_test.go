package memfs_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stint-io/stint/internal/testing/memfs"
)

// Pebble locks, links and reuses files while the disk is copied as a power cut leaves it. Neither waits for the other
// forever.
func TestDisksAreClonedWhileTheyAreUsed(t *testing.T) {
	disk := memfs.New("/data")
	var group sync.WaitGroup
	group.Go(func() {
		for range 2000 {
			if err := lockLinkAndReuse(disk); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 2000 {
		memfs.CrashClone(disk, 50, int64(i))
	}
	group.Wait()
}

func lockLinkAndReuse(disk memfs.FS) error {
	lock, err := disk.Lock("/data/LOCK")
	if err != nil {
		return err
	}
	file, err := disk.ReuseForWrite("/data/LOCK", "/data/reused", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(disk.Link("/data/reused", "/data/linked"), file.Close(), lock.Close(),
		disk.Remove("/data/reused"), disk.Remove("/data/linked"))
}
