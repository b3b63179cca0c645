package raftfsm

import (
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// unsyncedWrites tracks the entries that a leader has written to its log and not yet fsynced. Raft lets a leader send
// an entry to its followers while it writes the entry to its own disk (Ongaro's dissertation, section 10.2.1).
// hashicorp/raft does not, because it counts the leader's copy as soon as StoreLogs returns. Therefore StoreLogs on a
// leader returns before its fsync, and every message that would claim that this replica holds an entry waits for that
// fsync:
//
//   - A follower's acknowledgment reaches the leader's raft only when the entry is on the leader's own disk too
//     (await). If there is another voter, no entry is committed without such an acknowledgment. If there is none
//     (isOnlyVoter), StoreLogs waits for the fsync as usual. So raft never counts a copy of the leader toward a majority
//     unless that copy is on disk.
//   - A leader acknowledges no entries. A follower does, and a leader becomes a follower only with a newer term. So
//     nothing of a newer term is written before everything of the older term is on disk (settle).
//   - A configuration decides which voters make a majority. It is fsynced, with everything before it, before raft acts
//     on it.
//
// A crash may then lose entries of a leader that its followers have. To Raft these are ordinary uncommitted entries.
// Safe for concurrent use.
type unsyncedWrites struct {
	writes sync.WaitGroup // Group.Shutdown waits for it

	mu      sync.Mutex
	pending []*unsynced // oldest first
}

// unsynced is one write to the log.
type unsynced struct {
	first uint64        // index of its first entry
	done  chan struct{} // closed when the write is on disk or has failed
}

// begin registers a write of entries that starts at index first. wait returns when they are on disk or the latch is
// set.
func (a *unsyncedWrites) begin(first uint64, wait func()) {
	u := &unsynced{first: first, done: make(chan struct{})}
	a.mu.Lock()
	a.pending = append(a.pending, u)
	a.mu.Unlock()
	a.writes.Go(func() {
		defer a.end(u)
		wait()
	})
}

func (a *unsyncedWrites) end(u *unsynced) {
	close(u.done)
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.pending) > 0 {
		select {
		case <-a.pending[0].done:
			a.pending = a.pending[1:]
		default:
			return
		}
	}
}

// await returns when no entry up to index is still on its way to the disk.
func (a *unsyncedWrites) await(index uint64) {
	a.mu.Lock()
	var writes []*unsynced
	for _, u := range a.pending {
		if u.first <= index {
			writes = append(writes, u)
		}
	}
	a.mu.Unlock()
	for _, u := range writes {
		<-u.done
	}
}

// settle returns when nothing is on its way to the disk.
func (a *unsyncedWrites) settle() { a.await(^uint64(0)) }

// errOwnDisk is what raft gets in place of a follower's acknowledgment that must not count.
var errOwnDisk = errors.New("raftfsm: this node's own disk failed")

// isOnlyVoter reports whether a configuration names no voter but this replica, which then commits its entries by
// itself.
func isOnlyVoter(name string, members raft.Configuration) bool {
	return !slices.ContainsFunc(members.Servers, func(m raft.Server) bool {
		return m.Suffrage == raft.Voter && m.ID != raft.ServerID(name)
	})
}

func configures(logs []*raft.Log) bool {
	return slices.ContainsFunc(logs, func(log *raft.Log) bool { return log.Type == raft.LogConfiguration })
}
