package raftfsm

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// roster remembers the configurations in a group's log and their indexes. hashicorp/raft reports its latest
// configuration without its index, and a membership change must name the index of the configuration that it was decided
// upon.
//
// roster follows raft's changes to the log. An entry written at an index ends everything above it. Truncating the end
// of the log removes the configurations in it. A snapshot brings the configuration under which it was taken. roster may
// be used concurrently.
type roster struct {
	mu     sync.Mutex
	seen   []indexedConf // ascending; the last one is the latest
	newest uint64        // index of the newest snapshot; 0: none
}

// indexedConf is a configuration and the index of its entry.
type indexedConf struct {
	index uint64
	conf  raft.Configuration
}

// votersIn names the voters of a configuration.
func votersIn(conf raft.Configuration) (names []string) {
	for _, server := range conf.Servers {
		if server.Suffrage == raft.Voter {
			names = append(names, string(server.ID))
		}
	}
	return names
}

// latest returns the latest configuration, or the zero value if the replica knows none yet.
func (r *roster) latest() indexedConf {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return indexedConf{}
	}
	return r.seen[len(r.seen)-1]
}

// written notes entries that are now in the log.
func (r *roster) written(logs []*raft.Log) {
	for _, log := range logs {
		if log.Type == raft.LogConfiguration {
			r.add(log.Index, log.Index, raft.DecodeConfiguration(log.Data))
		}
	}
}

// cutOff notes that the log's entries starting at index from are gone.
func (r *roster) cutOff(from uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = slices.DeleteFunc(r.seen, func(p indexedConf) bool { return p.index >= from })
}

// snapshotted notes a snapshot: up to its index there is no later configuration than its own.
func (r *roster) snapshotted(snapshot, index uint64, conf raft.Configuration) {
	r.add(index, snapshot, conf)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, snapshot)
}

// snapshot returns the index of the newest snapshot; 0 if there is none.
func (r *roster) snapshot() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// add inserts a configuration in place of all those from index to upTo. Some older ones are kept, because the latest
// may be truncated.
func (r *roster) add(index, upTo uint64, conf raft.Configuration) {
	const kept = 64
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = slices.DeleteFunc(r.seen, func(p indexedConf) bool { return index <= p.index && p.index <= upTo })
	at, _ := slices.BinarySearchFunc(r.seen, index, func(p indexedConf, index uint64) int {
		return int(p.index) - int(index)
	})
	r.seen = slices.Insert(r.seen, at, indexedConf{index, conf.Clone()})
	r.seen = r.seen[max(0, len(r.seen)-kept):]
}
