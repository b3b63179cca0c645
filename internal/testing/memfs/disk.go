package memfs

import (
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a disk in memory. The fsyncs of its write-ahead logs can be made slow, made to hang, and made to fail. Writes
// of its StableFile fail with them. All methods may be called concurrently.
type Disk struct {
	vfs.FS

	mu      sync.Mutex
	slow    time.Duration // of each fsync; 0: it is not slow
	hanging chan struct{} // closed by Recover; nil if fsyncs do not hang
	failing bool          // once set it stays
}

// NewDisk wraps a disk that came from New, NewLasting, Copy or CrashClone.
func NewDisk(fs FS) *Disk { return &Disk{FS: fs} }

// Slow makes every fsync take the given time, until Recover.
func (d *Disk) Slow(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = by
}

// Hang makes every fsync wait until Recover.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hanging == nil {
		d.hanging = make(chan struct{})
	}
}

// Recover ends Slow and Hang.
func (d *Disk) Recover() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = 0
	if d.hanging != nil {
		close(d.hanging)
		d.hanging = nil
	}
}

// Fail makes every fsync from now on fail with EIO, without writing anything to the disk. Recover does not end it.
func (d *Disk) Fail() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = true
}

// suffer delays or fails an fsync according to the disk's current state. It holds no lock while it waits.
func (d *Disk) suffer() error {
	d.mu.Lock()
	slow, hanging := d.slow, d.hanging
	d.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	if hanging != nil {
		<-hanging
	}
	return d.fails()
}

func (d *Disk) fails() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing {
		return syscall.EIO
	}
	return nil
}

// watch makes a write-ahead log, which the name tells, suffer from the faults. Other files never do.
func (d *Disk) watch(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return faultyFile{file, d}, nil
}

// Create implements FS.
func (d *Disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.Create(name, category)
	return d.watch(name, file, err)
}

// ReuseForWrite implements FS.
func (d *Disk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.ReuseForWrite(from, to, category)
	return d.watch(to, file, err)
}

// faultyFile is a write-ahead log on a Disk.
type faultyFile struct {
	vfs.File
	disk *Disk
}

// Sync implements vfs.File.
func (f faultyFile) Sync() error {
	if err := f.disk.suffer(); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f faultyFile) SyncData() error {
	if err := f.disk.suffer(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// SyncTo implements vfs.File.
func (f faultyFile) SyncTo(length int64) (bool, error) {
	if err := f.disk.suffer(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
