package raftfsm

import (
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// ahead is what a leader has written to its log and not fsynced yet. Raft lets a leader send an entry to its followers while
// it writes the entry to its own disk (Ongaro's dissertation, section 10.2.1); hashicorp/raft does not, because it counts
// the leader's copy as soon as StoreLogs returns. So StoreLogs of a leader returns before its fsync, and whatever would tell
// somebody that this replica holds an entry waits for the fsync instead:
//
//   - A follower's "I have it" reaches the leader's raft only when the leader's own disk has it too (await). No entry is
//     committed without such an answer, if there is another voter; without one (alone) StoreLogs waits as ever. So raft never
//     counts a copy of the leader towards a majority that is not on its disk.
//   - Whoever leads sends no "I have it" himself; he may when he follows, which takes a newer term. So nothing of a newer term
//     is written before all of the older one is on the disk (settle).
//   - A configuration decides who is needed for a majority. It and all before it is fsynced before raft goes by it.
//
// A crash may then take entries of a leader that followers have: to Raft they are what any entry is that is not committed.
// Safe for concurrent use.
type ahead struct {
	writes sync.WaitGroup // Group.Shutdown waits for it

	mu      sync.Mutex
	pending []*unsynced // oldest first
}

// unsynced is one write to the log.
type unsynced struct {
	first uint64        // its first entry
	done  chan struct{} // closed when it is on the disk, or never will be
}

// begin notes a write of entries from an index on. wait returns when they are on the disk, or the latch is set.
func (a *ahead) begin(first uint64, wait func()) {
	u := &unsynced{first: first, done: make(chan struct{})}
	a.mu.Lock()
	a.pending = append(a.pending, u)
	a.mu.Unlock()
	a.writes.Go(func() {
		defer a.end(u)
		wait()
	})
}

func (a *ahead) end(u *unsynced) {
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

// await returns when no entry up to an index is still on its way to the disk.
func (a *ahead) await(index uint64) {
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
func (a *ahead) settle() { a.await(^uint64(0)) }

var errOwnDisk = errors.New("raftfsm: this node's own disk failed")

// alone reports whether a configuration names no voter but this replica: it commits what it writes, by itself.
func alone(name string, members raft.Configuration) bool {
	return !slices.ContainsFunc(members.Servers, func(m raft.Server) bool {
		return m.Suffrage == raft.Voter && m.ID != raft.ServerID(name)
	})
}

func configures(logs []*raft.Log) bool {
	return slices.ContainsFunc(logs, func(log *raft.Log) bool { return log.Type == raft.LogConfiguration })
}
