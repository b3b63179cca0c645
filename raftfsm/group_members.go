package raftfsm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// changeTimeout bounds how long a membership change may take to commit, once it is in the log.
const changeTimeout = 5 * time.Second

// caughtUpEntries is how many entries a learner's log may lag when it becomes a voter. The lag is known from a
// heartbeat, so it is about a tenth of a second old.
const caughtUpEntries = trailingEntries / 4

// Member is one member of a group's Raft configuration.
type Member struct {
	Name  string // Replica.Name
	Voter bool   // false: a learner
}

// Members returns the latest configuration in this replica's log, with the members in the order in which they were
// added, and the configuration's index, which AddLearner, Promote and Remove take as prevIndex. Only the leader's
// answer is authoritative, and even its latest change may not be committed yet. A replica that waits to be added
// returns no members and index 0. Members fails when the stores cannot be trusted.
func (g *Group) Members() (members []Member, index uint64, err error) {
	if err := g.guard.fault.cause(); err != nil {
		return nil, 0, err
	}
	latest := g.roster.latest()
	for _, server := range latest.conf.Servers {
		members = append(members, Member{Name: string(server.ID), Voter: server.Suffrage == raft.Voter})
	}
	return members, latest.index, nil
}

// Settled is like Members, and ok reports whether the latest configuration is committed. An uncommitted configuration
// may be lost when this leader loses its leadership, and a member that it removed would then be a member again.
func (g *Group) Settled() (members []Member, index uint64, ok bool) {
	members, index, err := g.Members()
	return members, index, err == nil && index > 0 && g.raft.CommitIndex() >= index //mutant:uncommitted-change-recorded
}

// AddLearner adds a member that receives the log and does not vote. The replica of that name must have been created
// without voters (CreateGroup). prevIndex is the index of the configuration on which the change was decided (Members):
// if there is a later one, nothing changes. Adding an existing learner does nothing.
//
// AddLearner, Promote and Remove wait until the change is committed, at most some seconds. Their error is a
// *shard.Error: UnknownOutcome says that the change may still be made; every other code says that nothing changed
// (Conflict: there is a later configuration; Invalid: not possible for this name). In every case Members shows the
// current state. Only the leader can change anything.
func (g *Group) AddLearner(name string, prevIndex uint64) error {
	return g.change("adding learner "+name, prevIndex, func(members []Member) (raft.IndexFuture, *shard.Error) {
		switch i := indexOf(members, name); {
		case i >= 0 && members[i].Voter:
			return nil, shard.Invalidf("name", "it is a voter already: a replica that comes back needs a new number")
		case i >= 0:
			return nil, nil
		}
		return g.raft.AddNonvoter(raft.ServerID(name), raft.ServerAddress(name), prevIndex, enqueueTimeout), nil
	})
}

// Promote makes an existing learner a voter if its log has caught up. See AddLearner for errors. Promoting a voter does
// nothing. A group that was opened with GroupConfig.Lone refuses, because its timing is that of one voter.
func (g *Group) Promote(name string, prevIndex uint64) error {
	return g.change("promoting "+name, prevIndex, func(members []Member) (raft.IndexFuture, *shard.Error) {
		switch i := indexOf(members, name); {
		case i < 0:
			return nil, shard.Invalidf("name", "it is no member: add it as a learner first")
		case members[i].Voter:
			return nil, nil
		case g.cfg.Lone:
			return nil, shard.Invalidf("name", "the group runs with the timing of one voter: "+
				"reopen it without Lone first")
		}
		if err := g.Behind(name); err != nil { //mutant:learner-votes-behind
			return nil, err
		}
		return g.raft.AddVoter(raft.ServerID(name), raft.ServerAddress(name), prevIndex, enqueueTimeout), nil
	})
}

// Behind says why a member must not vote or lead yet, as far as this replica knows, which leads: it does not answer, or
// lacks much of the log. A voter counts for the majority even if its log is empty, and the group would wait for it.
func (g *Group) Behind(name string) *shard.Error {
	heard, ok := g.transport.heard(name, 2*g.electionTimeout())
	if last := g.raft.LastIndex(); !ok {
		return unavailable("it does not answer: see whether its node runs, and try again")
	} else if heard.lastLog+caughtUpEntries < last { //mutant:voter-with-nothing
		return unavailable(fmt.Sprintf("it has not caught up, it is at entry %d of %d: try again later",
			heard.lastLog, last))
	}
	return nil
}

// Remove removes a member from the group, voter or not. See AddLearner for errors. Removing an absent member does
// nothing. A leader does not remove itself, because hashicorp/raft would then leave proposals unanswered: call Transfer
// first.
func (g *Group) Remove(name string, prevIndex uint64) error {
	return g.change("removing "+name, prevIndex, func(members []Member) (raft.IndexFuture, *shard.Error) {
		switch {
		case name == g.name:
			return nil, shard.Invalidf("name", "it leads the group: transfer the leadership first, "+
				"the next leader removes it")
		case indexOf(members, name) < 0:
			return nil, nil
		}
		return g.raft.RemoveServer(raft.ServerID(name), prevIndex, enqueueTimeout), nil
	})
}

func indexOf(members []Member, name string) int {
	return slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
}

// change makes one membership change. begin checks the configuration at index prevIndex and hands the change to raft,
// which compares the index again, atomically. begin returns nil when there is nothing to do.
func (g *Group) change(what string, prevIndex uint64,
	begin func([]Member) (raft.IndexFuture, *shard.Error)) error {
	failed := func(err *shard.Error) error {
		return &shard.Error{Code: err.Code, Field: err.Field, RetryAfter: err.RetryAfter,
			Message: fmt.Sprintf("%s: %s: %s", g.name, what, err.Message)}
	}
	members, index, err := g.Members()
	switch {
	case err != nil || g.closing.Load():
		return failed(unavailable("this node is closing the shard"))
	case !g.Leading():
		return failed(proposalError(raft.ErrNotLeader))
	case prevIndex == 0 || prevIndex != index:
		return failed(&shard.Error{Code: shard.Conflict, Message: fmt.Sprintf(
			"it was decided upon configuration %d, the latest is %d: look at Members again", prevIndex, index)})
	}
	if !g.enter() {
		return failed(unavailable("the shard's log is busy: try again"))
	}
	future, refused := begin(members)
	if future == nil {
		<-g.proposals
	}
	if refused != nil {
		return failed(refused)
	}
	if future == nil {
		return nil
	}
	if err := changeError(g.ended(future, changeTimeout)); err != nil {
		return failed(err)
	}
	return nil
}

// changeError is proposalError for membership changes. raft refuses two changes by text only, before it writes
// anything: a change that was decided upon an older configuration, and one that would leave no voter.
func changeError(err error) *shard.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errLate):
		return unknown(fmt.Sprintf("not committed within %v, and may yet be: look at Members again", changeTimeout))
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown):
		return unknown("it may or may not have been made: " + err.Error())
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return unavailable("the change before it is not committed yet: try again later")
	}
	return proposalError(err)
}
