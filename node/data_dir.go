package node

import (
	"sync/atomic"

	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

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
