package memfs

import (
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a disk in memory whose fsyncs of write-ahead logs can be made to take their time, to hang, and to fail.
type Disk struct {
	vfs.FS

	mu      sync.Mutex
	slow    time.Duration
	hanging chan struct{} // closed when it no longer hangs; nil: it does not
	failing bool
}

// NewDisk makes a Disk of one that came from New or CrashClone.
func NewDisk(fs FS) *Disk { return &Disk{FS: fs} }

// Slow has every fsync take that long, until Recover.
func (d *Disk) Slow(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = by
}

// Hang has every fsync wait until Recover.
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

// Fail has every fsync from now on fail with EIO, without bringing anything to the disk.
func (d *Disk) Fail() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = true
}

// suffer does to an fsync what the disk does at the time. No lock is held while it waits.
func (d *Disk) suffer() error {
	d.mu.Lock()
	slow, hanging, failing := d.slow, d.hanging, d.failing
	d.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	if hanging != nil {
		<-hanging
	}
	if failing {
		return syscall.EIO
	}
	return nil
}

func (d *Disk) watch(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return suffering{file, d}, nil
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

// suffering is a write-ahead log on a Disk.
type suffering struct {
	vfs.File
	disk *Disk
}

// Sync implements vfs.File.
func (f suffering) Sync() error {
	if err := f.disk.suffer(); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f suffering) SyncData() error {
	if err := f.disk.suffer(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// SyncTo implements vfs.File.
func (f suffering) SyncTo(length int64) (bool, error) {
	if err := f.disk.suffer(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
