package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// diskError wraps an error from the stores in ErrDisk if the disk does not hold what was written to it.
func diskError(err error) error {
	if errors.Is(err, raftfsm.ErrCorrupt) || errors.Is(err, raftfsm.ErrLost) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// untrusted wraps a fatal error in ErrDisk if it comes from stores that have stopped: a goroutine that they refuse may
// be the first to tell the node, before the one that saw the disk fail.
func untrusted(err error) error {
	if errors.Is(err, raftfsm.ErrUntrusted) && !errors.Is(err, ErrDisk) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// dataDir is this node's data directory with the stores in it. One goroutine opens it, the start's or else the
// founder's, before any other goroutine uses it; from then on all methods may be called concurrently.
type dataDir struct {
	path   string
	config raftfsm.StoresConfig         // of a directory that exists
	opened func(stores *raftfsm.Stores) // called once
	stores *raftfsm.Stores              // nil: not open. A new directory is created once the cluster is known

	// why a process before had to end; nil: none had to, or the directory is not open
	distrust atomic.Pointer[raftfsm.Distrust]
}

// exists reports whether there is a directory, open or not.
func (d *dataDir) exists() bool { return raftfsm.Exists(d.path, d.config.FS) }

// open opens a directory that exists.
func (d *dataDir) open() error { return d.openAs(d.config) }

// create creates the directory as that of a node of a cluster. It holds the records from the first moment.
func (d *dataDir) create(identity raftfsm.Identity, records map[string]any, level shard.Level) error {
	config := d.config
	config.Fresh, config.FreshRecords, config.FreshLevel = identity, records, level
	return d.openAs(config)
}

func (d *dataDir) openAs(config raftfsm.StoresConfig) (err error) {
	if d.stores, err = raftfsm.OpenStores(d.path, config); err != nil {
		return diskError(err)
	}
	if last, ok := d.stores.LastDistrust(); ok {
		d.distrust.Store(&last)
		config.Logger.Warn("a process before this one ended itself, because its disk could not be trusted",
			"dir", d.path, "at", last.At, "why", last.Why)
	}
	d.opened(d.stores)
	return nil
}

// cluster is the id of the cluster that the directory belongs to; "" while it is not open.
func (d *dataDir) cluster() string {
	if d.stores == nil {
		return ""
	}
	return d.stores.Identity().Cluster
}

// keep writes a record down. An edge has no directory, and keeps nothing.
func (d *dataDir) keep(name string, record any) error {
	if d == nil {
		return nil
	}
	return diskError(d.stores.PutRecord(name, record))
}

// read reads a record that was kept, and reports whether there is one.
func (d *dataDir) read(name string, record any) (found bool, err error) {
	found, err = d.stores.ReadRecord(name, record)
	return found, diskError(err)
}

// close closes the directory, if it is open.
func (d *dataDir) close() error {
	if d.stores == nil {
		return nil
	}
	return d.stores.Close()
}

// recordFormation is the name of the record of how far a founding is. Documents have records of their own names.
const recordFormation = "formation"
