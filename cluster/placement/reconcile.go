package placement

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Held describes a replica with stores on a node's disk.
type Held struct {
	Shard  shard.ID
	Number uint64
	Open   bool
	Lone   bool // opened as the only replica of its group
	Broken bool // it cannot be opened: lost, suspect or convicted
	Kept   bool // do not delete its stores: they are evidence to be examined
}

// ActionKind is a node's action on a replica.
type ActionKind int

// The actions that bring a node in line with the table.
const (
	// Create makes the stores of a replica, with Voters as its first configuration, or with none for a replica that
	// joins a group.
	Create ActionKind = iota + 1
	// MarkCreated records in the table that the stores were made (Table.ApplyCreated).
	MarkCreated
	// Open starts a replica.
	Open
	// Reopen closes a replica and opens it with other timing, Lone or not.
	Reopen
	// MarkLost records in the table that the stores are gone or must not be trusted (Table.ApplyLost).
	MarkLost
	// Close stops a replica that the table no longer lists, or lists as lost.
	Close
	// Destroy deletes the stores of a replica that the table no longer lists.
	Destroy
)

// Action is one step of a node toward the table.
type Action struct {
	Kind   ActionKind
	Shard  shard.ID
	Number uint64
	Voters []string // Create: names of the group's first voters; none for a replica that joins a group
	Lone   bool     // Open, Reopen: it is the only replica of its group
}

// Reconcile returns a node's next actions: at most one for each replica, those of listed replicas first. held must be
// everything on the node's disk.
//
// A replica takes part in its group only once the table says Created. Before that, a node that lost the stores can make
// them again; after that it must not. So Create has an extra condition: the table must have been read from the system
// shard since the process started. Otherwise a wiped node with an old table would rebuild the lost stores under the old
// number, and vote with less memory than it had.
//
// A replica of the system shard is always opened, unless it is known to be gone: the table that would list it as
// created may be in it, and nowhere else. Until it is created, no node makes it a member, so it has no vote to misuse.
//
// All other actions are safe with an old table. Stores are deleted only if the table has already given out their number
// (NextNumber) and does not list it; then no newer table lists it. Until then lost or suspect stores stay in place, for
// `stint tool recover`.
func Reconcile(t *Table, node string, held []Held) []Action {
	var actions []Action
	note := func(a Action) {
		if a.Kind != 0 {
			actions = append(actions, a)
		}
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		for _, r := range g.Replicas {
			if r.Node != node {
				continue
			}
			at := slices.IndexFunc(held, func(h Held) bool { return h.Shard == g.Shard && h.Number == r.Number })
			if at < 0 {
				note(g.withoutStores(r))
			} else {
				note(g.withStores(r, held[at]))
			}
		}
	}
	for _, h := range held {
		if t.Replica(h.Shard, node, h.Number) == nil {
			note(unlisted(h, t.NextNumber))
		}
	}
	return actions
}

// withoutStores returns the action for a listed replica without stores on the node.
func (g *Group) withoutStores(r Replica) Action {
	switch {
	case r.Created && !r.Lost:
		return Action{Kind: MarkLost, Shard: g.Shard, Number: r.Number} //mutant:wiped-replica-keeps-its-number
	case r.Created || r.Lost || r.Role == Leaving:
		return Action{}
	case r.Number == g.number():
		return Action{Kind: Create, Shard: g.Shard, Number: r.Number, Voters: g.firstVoters()}
	}
	return Action{Kind: Create, Shard: g.Shard, Number: r.Number}
}

// withStores returns the action for a listed replica with stores on the node.
func (g *Group) withStores(r Replica, h Held) Action {
	lone := len(g.Replicas) == 1
	switch {
	case r.Lost && h.Open:
		return Action{Kind: Close, Shard: g.Shard, Number: r.Number}
	case r.Lost:
		return Action{}
	case h.Broken:
		return Action{Kind: MarkLost, Shard: g.Shard, Number: r.Number}
	case !r.Created && (h.Open || g.Shard != shard.System):
		return Action{Kind: MarkCreated, Shard: g.Shard, Number: r.Number}
	case !h.Open:
		return Action{Kind: Open, Shard: g.Shard, Number: r.Number, Lone: lone}
	case h.Lone != lone:
		return Action{Kind: Reopen, Shard: g.Shard, Number: r.Number, Lone: lone}
	}
	return Action{}
}

// unlisted returns the action for stores that the table no longer lists, or does not list yet.
func unlisted(h Held, nextNumber uint64) Action {
	gone := h.Number < nextNumber
	switch {
	case gone && h.Open:
		return Action{Kind: Close, Shard: h.Shard, Number: h.Number}
	case gone && h.Kept: //mutant:evidence-deleted
		return Action{}
	case gone:
		return Action{Kind: Destroy, Shard: h.Shard, Number: h.Number}
	case h.Shard == shard.System && !h.Open && !h.Broken:
		return Action{Kind: Open, Shard: h.Shard, Number: h.Number}
	}
	return Action{}
}
