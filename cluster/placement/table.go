package placement

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Table is the source of truth for the membership of the cluster and the location of each shard. It is a document of
// the system shard (TableDocument), replaced by compare-and-set only; its version is the document's version. A Table is
// never changed once it was handed on: changes are made to a Clone.
type Table struct {
	Cluster string
	Shards  uint32    // number of data shards, with ids 0 to Shards-1; the system shard is not counted
	Slots   *slot.Map // the shard of each slot; follows the shards' logs, which decide
	// Wanted is how many shards are to share the slots, those with the lowest ids; 0 means Shards. A shard that is no
	// longer wanted stays, without slots.
	Wanted uint32 `json:",omitempty"`
	// Asked is how often a number of shards was asked for. A request that was made for an older one comes too late.
	Asked    uint64  `json:",omitempty"`
	Moves    []Move  `json:",omitempty"` // at most movesMax, and asideMax more that wait; each of another slot
	Replicas int     // target number of voters of each group
	Nodes    []Node  // by id
	Groups   []Group // one for each shard, by its id; the system shard's is the last
	// NextNumber is the number of the next replica, in any group. Numbers are never reused.
	NextNumber uint64
	// Level is the feature level that a node must know to be registered and to be given replicas: Levels.Written at
	// that time. It fences a rise: a plan made before it can no longer replace the table. Levels is the source of
	// truth. 0 means that the cluster has not risen, and every node knows its level.
	Level shard.Level `json:",omitempty"`
}

// FoundedSlots returns the shard that had each slot when the cluster was founded. Shards that came later had none.
func (t *Table) FoundedSlots() *slot.Map {
	shards := uint32(0)
	for i := range t.Groups {
		if t.Groups[i].Shard != shard.System && t.Groups[i].Number == 0 { //mutant:lagging-replica-has-the-slot
			shards++
		}
	}
	return slot.Even(shards)
}

// Clone returns a copy that shares nothing with t but the map of slots, which is never changed.
func (t *Table) Clone() *Table {
	c := *t
	c.Moves = slices.Clone(t.Moves)
	c.Nodes = slices.Clone(t.Nodes)
	c.Groups = slices.Clone(t.Groups)
	for i := range c.Groups {
		g := &c.Groups[i]
		g.Founders, g.Replicas = slices.Clone(g.Founders), slices.Clone(g.Replicas)
	}
	return &c
}

// MaxShards is the largest number of data shards that a node is known to carry (R13).
const MaxShards = 256

// Names of documents of the system shard; see also LevelsDocument.
const (
	TableDocument    = "table"
	PoliciesDocument = "policies"
)

// Node is one registered node. Its zone, its version and its addresses (host:port) are as it has announced them.
type Node struct {
	ID         string
	Zone       string `json:",omitempty"` // nodes without one are in one zone together
	Version    string `json:",omitempty"`
	APIAddr    string
	PeerAddr   string
	GossipAddr string
	State      NodeState
	// Incarnation distinguishes the nodes admitted one after the other under the id: each with a new disk, after the
	// one before was removed. The first has 0; others have a number that no replica has.
	Incarnation uint64 `json:",omitempty"`
	// DrainedLife is the process (Report.Life) that the draining ends with; "" if only an operator ends it.
	DrainedLife string `json:",omitempty"`
}

// NodeState is whether a node holds replicas and leads groups. The numbers are kept on disk: append, never renumber.
type NodeState uint8

const (
	// NodeActive holds replicas and leads groups.
	NodeActive NodeState = iota
	// NodeDraining keeps its replicas but should not lead.
	NodeDraining
	// NodeLeaving is losing its replicas; when it has none left it becomes NodeRemoved.
	NodeLeaving
	// NodeRemoved is no longer a member. Its id stays listed, and is admitted again only with a new disk (Incarnation).
	NodeRemoved
)

// String implements fmt.Stringer.
func (s NodeState) String() string {
	return named("state", s, "active", "draining", "leaving", "removed")
}

// named is the name of a stage, one of these in order; what a newer version wrote is called by its number.
func named[S ~uint8](what string, stage S, names ...string) string {
	if int(stage) < len(names) {
		return names[stage]
	}
	return fmt.Sprintf("%s %d", what, uint8(stage))
}

// Move is a move of a slot that is to be made, or is under way.
type Move struct {
	// Its Generation is 0 until the mover has asked From for the slot's present one.
	shard.Move
	// Back means that the slot is no longer wanted on To: the move is taken back, unless To owns the slot already.
	Back bool `json:",omitempty"`
}

// Group lists the replicas of one shard.
type Group struct {
	Shard shard.ID
	Lead  string `json:",omitempty"` // node that should lead; "" for no preference
	// Founders are the nodes of the group's first voters, the replicas of Number. The list never changes: a late
	// founder creates its replica with the same first configuration as the others, even if some of them were replaced
	// since.
	Founders []string
	// Number is that of the founders' replicas; 0 means firstNumber. A node that knows only a table from before the
	// group must not take its replica for one that is no longer listed, so a group made later has a new number.
	Number   uint64 `json:",omitempty"`
	Replicas []Replica
}

// Replica is one copy of a shard. Its role only moves forward: learner, voter, leaving, then no longer listed. So a
// node that acts on an old table does nothing that a newer one forbids.
type Replica struct {
	Node    string
	Number  uint64 // the group's (Group.Number) in a founder's first replica; else of this one alone
	Role    Role
	Created bool `json:",omitempty"` // its stores were made: a node without stores of this number has lost them
	Lost    bool `json:",omitempty"` // its node reported that the stores are gone, or must not be trusted
}

// Role is the stage of a replica's life. The numbers are kept on disk: append, never renumber.
type Role uint8

const (
	// Learner receives the log and does not vote; it becomes a voter when it has caught up.
	Learner Role = iota
	// Voter counts for the majority.
	Voter
	// Leaving is being removed from the group.
	Leaving
)

// String implements fmt.Stringer.
func (r Role) String() string { return named("role", r, "learner", "voter", "leaving") }
