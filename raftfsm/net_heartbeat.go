package raftfsm

import (
	"time"

	"github.com/hashicorp/raft"
)

// Beat. A leader sends each follower of each group a heartbeat, a tenth to a fifth of a heartbeat timeout after the one
// before. Sent one by one, each of them wakes threads at both ends, which is most of what an idle node does. So
// heartbeats wait for the next beat, an instant that is the same for all groups of a node: they leave together and
// arrive together. On nodes with clocks that agree it is the same instant as well. A clock that is wrong or is set
// makes no wait longer than beatEvery, so a member hears from its leader at least three times in a heartbeat timeout.
//
// A heartbeat that is late waits for no beat: its leader, or the follower, has stood still, and an election is near.
const (
	beatEvery = heartbeatTimeout / 10
	beatLate  = 3 * beatEvery // since the follower's last response; raft lets a heartbeat follow after two at most
)

// isHeartbeat reports whether a request says nothing but that the leader is there. raft sends a heartbeat from a
// goroutine that does nothing else. Any other request waits for no beat.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	//mutant:awaited-commit-waits-for-a-beat
	return len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
}

// untilBeat returns the time from now to the next beat: more than 0, and at most beatEvery.
func untilBeat(now time.Time) time.Duration {
	return now.Truncate(beatEvery).Add(beatEvery).Sub(now)
}

// isLate reports whether a follower should have heard from this leader before. One that has been silent for a heartbeat
// timeout may be dead: its heartbeats wait for beats again, so that they wake no thread more.
func (t *transport) isLate(name string) bool {
	c, found := t.heard(name, heartbeatTimeout)
	return found && time.Since(c.at) >= beatLate
}

// match is an entry that a follower has in common with the leader of a term. Their logs are the same up to it (Ongaro
// and Ousterhout, "In Search of an Understandable Consensus Algorithm", section 5.3), and stay so while the term lasts.
// term is the leader's, and entryTerm that of the entry. The zero value means that no entry is known to be in common.
type match struct{ term, index, entryTerm uint64 }

// matching returns the newest entry that a follower has in common with the leader of the request that it accepted.
func matching(accepted *raft.AppendEntriesRequest) match {
	if n := len(accepted.Entries); n > 0 {
		return match{accepted.Term, accepted.Entries[n-1].Index, accepted.Entries[n-1].Term}
	}
	return match{accepted.Term, accepted.PrevLogEntry, accepted.PrevLogTerm}
}

// heartbeat sends a heartbeat, and with it what is committed. raft would tell the followers of an idle group by
// messages of their own, which leave at no common instant and cost more than the heartbeats do (commitTimeout).
func (t *transport) heartbeat(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.hung() { //mutant:hung-leader-beats-on
		return errHungDisk
	}
	name := string(target)
	telling := t.telling(name, args)
	err := t.NetworkTransport.AppendEntries(id, target, &telling, resp)
	//mutant:lagging-follower-not-helped
	if err == nil && !resp.Success && resp.Term == args.Term && telling.PrevLogEntry > 0 {
		// The follower has lost an entry, and has not taken this for word from its leader. raft finds out when it sends
		// entries.
		t.unmatch(name)
		err = t.NetworkTransport.AppendEntries(id, target, args, resp)
	}
	if err == nil && resp.Term <= args.Term {
		t.note(name, resp.LastLog)
	}
	return err
}

// telling returns a heartbeat that says how much is committed of the entries that a follower is known to have. It is a
// message that raft itself could send now. The follower may have other entries after those, which the leader will
// replace.
func (t *transport) telling(name string, args *raft.AppendEntriesRequest) raft.AppendEntriesRequest {
	telling := *args // raft uses its own again
	t.mu.Lock()
	known := t.contacts[name].match
	t.mu.Unlock()
	//mutant:heartbeat-commits-too-much //mutant:heartbeat-of-another-term //mutant:heartbeat-without-commit
	if committed := min(t.committed(args.Term), known.index); committed > 0 && known.term == args.Term {
		telling.PrevLogEntry, telling.PrevLogTerm, telling.LeaderCommitIndex = known.index, known.entryTerm, committed
	}
	return telling
}
