package raftfsm

import (
	"sync"

	"github.com/hashicorp/raft"
)

// The newest entries of a group stay in memory, for replication and for the state machine: at most so many, and at most
// so many bytes, but always the newest one. raft.LogCache bounds only their number, and entries of 4,096 requests take
// half a megabyte.
const (
	recentEntries = 64
	recentBytes   = 1 << 20
)

// recentLog is a log store with its newest entries in memory. Raft's main goroutine writes; any goroutine reads.
type recentLog struct {
	raft.LogStore

	mu      sync.RWMutex
	entries [recentEntries]*raft.Log // by index, modulo their number; read only, as readers share their data
	bytes   int                      // of the entries' data
}

// GetLog implements raft.LogStore.
func (r *recentLog) GetLog(index uint64, log *raft.Log) error {
	r.mu.RLock()
	recent := r.entries[index%recentEntries]
	r.mu.RUnlock()
	if recent != nil && recent.Index == index {
		*log = *recent
		return nil
	}
	return r.LogStore.GetLog(index, log)
}

// StoreLog implements raft.LogStore.
func (r *recentLog) StoreLog(log *raft.Log) error { return r.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (r *recentLog) StoreLogs(logs []*raft.Log) error {
	if err := r.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, log := range logs {
		r.drop(log.Index)
		r.entries[log.Index%recentEntries] = log
		r.bytes += len(log.Data)
		for older := log.Index + 1; r.bytes > recentBytes && older < log.Index+recentEntries; older++ {
			r.drop(older) // the place of the oldest entry comes after that of the newest
		}
	}
	return nil
}

// drop empties the place of an index.
func (r *recentLog) drop(index uint64) {
	if old := r.entries[index%recentEntries]; old != nil {
		r.bytes -= len(old.Data)
		r.entries[index%recentEntries] = nil
	}
}

// DeleteRange implements raft.LogStore. What replaces a deleted end has the same indexes.
func (r *recentLog) DeleteRange(first, last uint64) error {
	r.mu.Lock()
	r.entries, r.bytes = [recentEntries]*raft.Log{}, 0
	r.mu.Unlock()
	return r.LogStore.DeleteRange(first, last)
}
