package raftfsm

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// roster remembers which configurations stand in a group's log, and where: hashicorp/raft tells its latest
// configuration, but not at which index, and a membership change must name the index that it was decided upon.
//
// It follows what raft does to the log. An entry that is written at an index ends all that was above it, an end that is
// cut off takes its configurations along, and a snapshot brings the one that it was taken under. It may be called
// concurrently.
type roster struct {
	mu     sync.Mutex
	seen   []placed // ascending; the last one is the latest
	newest uint64   // snapshot's index; 0: none
}

// placed is a configuration and the index of its entry.
type placed struct {
	index uint64
	conf  raft.Configuration
}

// latest is the zero value in a replica that was not told any configuration yet.
func (r *roster) latest() placed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return placed{}
	}
	return r.seen[len(r.seen)-1]
}

// written notes entries that stand in the log now.
func (r *roster) written(logs []*raft.Log) {
	for _, log := range logs {
		if log.Type == raft.LogConfiguration {
			r.add(log.Index, log.Index, raft.DecodeConfiguration(log.Data))
		}
	}
}

// cutOff notes that the log's entries from an index on are gone.
func (r *roster) cutOff(from uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = slices.DeleteFunc(r.seen, func(p placed) bool { return p.index >= from })
}

// snapshotted notes a snapshot: up to its index there is no later configuration than its own.
func (r *roster) snapshotted(snapshot, index uint64, conf raft.Configuration) {
	r.add(index, snapshot, conf)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, snapshot)
}

// snapshot is the index of the newest snapshot; 0: none.
func (r *roster) snapshot() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// add puts a configuration in place of all between its index and another. Some of the older ones stay, because the
// latest may be cut off.
func (r *roster) add(index, upTo uint64, conf raft.Configuration) {
	const kept = 64
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = slices.DeleteFunc(r.seen, func(p placed) bool { return index <= p.index && p.index <= upTo })
	at, _ := slices.BinarySearchFunc(r.seen, index, func(p placed, index uint64) int { return int(p.index) - int(index) })
	r.seen = slices.Insert(r.seen, at, placed{index, conf.Clone()})
	r.seen = r.seen[max(0, len(r.seen)-kept):]
}
