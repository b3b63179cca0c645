package placement

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Align returns the next changes for the leader of a group, the replica named self: what to record in the table, and at
// most one change of the group, which must be finished before Align is called again.
//
// members is the group's newest configuration, committed, and read by a leader after it got the table; otherwise a
// recorded fact could be false. The table must have been read from the system shard after self began to lead, so that
// no leader acts on an older table than its predecessor did.
//
// caughtUp reports whether a member has answered recently and has nearly all of the log; it is not called for self. It
// decides which learners may vote. A member is removed only if a majority of the remaining voters has caught up,
// because a replica that answered when the planner looked may be dead by now.
func Align(t *Table, id shard.ID, self string, members []GroupMember, caughtUp func(name string) bool) []Change {
	g := t.Group(id)
	if g == nil {
		return nil
	}
	a := aligner{g: g, self: self, members: members,
		caughtUp: func(name string) bool { return name == self || caughtUp(name) }}
	for _, r := range g.Replicas {
		a.replica(r)
	}
	for _, m := range members {
		if !slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Name(id) == m.Name }) {
			a.unlisted(m, t.NextNumber)
		}
	}
	return a.oneOfRaft()
}

// aligner is the input of Align, and what it has found so far.
type aligner struct {
	g        *Group
	self     string
	members  []GroupMember
	caughtUp func(name string) bool // true for self
	changes  []Change               // all that are due; oneOfRaft chooses
}

func (a *aligner) note(kind ChangeKind, r Replica) {
	a.changes = append(a.changes,
		Change{Kind: kind, Shard: a.g.Shard, Name: r.Name(a.g.Shard), Node: r.Node, Number: r.Number})
}

// replica compares one listed replica with the configuration. A listed voter without a vote in the configuration is
// promoted again: its vote was recorded, but the entry that gave it was lost with its leader.
func (a *aligner) replica(r Replica) {
	name := r.Name(a.g.Shard)
	at := slices.IndexFunc(a.members, func(m GroupMember) bool { return m.Name == name })
	votes := at >= 0 && a.members[at].Voter
	switch {
	case r.Role == Leaving && at < 0:
		a.note(RecordGone, r)
	case r.Role == Leaving && name == a.self:
		a.transfer()
	case r.Role == Leaving:
		if a.canRemove(name) {
			a.note(Remove, r)
		}
	case r.Role == Learner && votes:
		a.note(RecordVoter, r)
	case r.Lost || !r.Created || votes || a.crowded(r): //mutant:second-voter-of-a-node
	case at < 0:
		a.note(AddLearner, r)
	case a.caughtUp(name):
		a.note(Promote, r)
	}
}

// crowded reports whether a voter has to leave before a replica comes: another one of its node, because a node has one
// vote in a group, or a lost one. A lost voter cannot leave first if it is the table's only voter.
func (a *aligner) crowded(coming Replica) bool {
	for _, r := range a.g.Replicas {
		goes := r.Node == coming.Node || r.Lost && (r.Role == Leaving || len(a.g.Voters()) > 1)
		if goes && r.Number != coming.Number && slices.Contains(a.members, GroupMember{r.Name(a.g.Shard), true}) {
			return true
		}
	}
	return false
}

// canRemove reports whether a majority of the voters that remain without a member has caught up.
func (a *aligner) canRemove(name string) bool {
	voters, current := 0, 0
	for _, m := range a.members {
		if !m.Voter || m.Name == name {
			continue
		}
		voters++
		if a.caughtUp(m.Name) {
			current++
		}
	}
	return current > voters/2
}

// transfer looks for a remaining voter that has caught up, preferably on the node that should lead.
func (a *aligner) transfer() {
	var heir *Replica
	for i := range a.g.Replicas {
		r := &a.g.Replicas[i]
		name := r.Name(a.g.Shard)
		if r.Role != Voter || r.Lost || !slices.Contains(a.members, GroupMember{name, true}) || !a.caughtUp(name) {
			continue
		}
		if heir == nil || r.Node == a.g.Lead {
			heir = r
		}
	}
	if heir != nil {
		a.note(TransferAway, *heir)
	}
}

// unlisted handles a member that the table does not list. A number that the table has already given out was listed
// once, and is gone for good.
func (a *aligner) unlisted(m GroupMember, nextNumber uint64) {
	r, id, err := ParseName(m.Name)
	if err != nil || id != a.g.Shard || r.Number < firstNumber || r.Name(id) != m.Name {
		r = Replica{}
	}
	switch {
	case r == Replica{} || r.Number >= nextNumber || m.Name == a.self:
		a.changes = append(a.changes, Change{Kind: Unknown, Shard: a.g.Shard, Name: m.Name, Node: r.Node,
			Number: r.Number})
	case a.canRemove(m.Name):
		a.note(Stray, r)
	}
}

// oneOfRaft returns the changes of the table and the notices, and only the first change of the group, in the order of
// their kinds.
func (a *aligner) oneOfRaft() []Change {
	var first *Change
	var kept []Change
	for i, c := range a.changes {
		if !c.ofRaft() {
			kept = append(kept, c)
		} else if first == nil || c.Kind < first.Kind {
			first = &a.changes[i]
		}
	}
	if first != nil {
		kept = append(kept, *first)
	}
	return kept
}
