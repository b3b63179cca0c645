package raftfsm

import (
	"slices"
	"strconv"

	"github.com/hashicorp/raft"
)

// Succession is what a replica knows that decides which of them should succeed a leader that has died.
type Succession struct {
	Leader    string // name of the leader's replica; "": unknown, or this replica leads
	Term      uint64 // in which that leads
	LastTerm  uint64 // of the log's newest entry
	LastIndex uint64 // of the log's newest entry
}

// Succession returns what this replica knows. It is expensive: raft tells the term of an entry only as text.
func (g *Group) Succession() Succession {
	stats := g.raft.Stats()
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(stats[name], 10, 64) // raft wrote it
		return n
	}
	s := Succession{Term: g.raft.CurrentTerm(), LastTerm: number("last_log_term"), LastIndex: number("last_log_index")}
	if snapshot := number("last_snapshot_index"); snapshot > s.LastIndex {
		s.LastTerm, s.LastIndex = number("last_snapshot_term"), snapshot
	}
	if g.raft.State() == raft.Follower {
		s.Leader = g.Leader()
	}
	return s
}

// Succeed stands for election at once, without waiting until the heartbeats of a leader are missed, and reports
// whether it does. The leader must have died, to the knowledge of a majority of the voters: this deposes one that
// lives. It is refused unless this replica is a voter that still follows that leader in that term: it has granted no
// vote since, and has heard of no newer term. Once it stands, the term is over, so it stands once in a term (R10c).
func (g *Group) Succeed(leader string, term uint64) bool {
	return g.transport.campaign(func() bool { return g.maySucceed(leader, term) })
}

// maySucceed is Succeed's condition.
func (g *Group) maySucceed(leader string, term uint64) bool {
	switch {
	case g.closing.Load() || g.guard.hung.Load() || g.guard.fault.cause() != nil:
		return false
	case g.raft.State() != raft.Follower: //mutant:leader-succeeds-itself
		return false
	case g.raft.CurrentTerm() != term: //mutant:succeeds-in-a-newer-term
		return false
	case g.Leader() != leader: //mutant:succeeds-another-leader
		return false
	}
	return isVoter(g.raft.GetConfiguration().Configuration(), g.name)
}

// isVoter reports whether a replica is a voter in a configuration.
func isVoter(conf raft.Configuration, name string) bool {
	return slices.ContainsFunc(conf.Servers, func(s raft.Server) bool {
		return string(s.ID) == name && s.Suffrage == raft.Voter //mutant:learner-succeeds
	})
}
