package cluster

import (
	"github.com/stint-io/stint/shard"
)

// Table is the truth about who belongs to the cluster and where each shard lives. It is a document of the system shard
// (TableDocument), replaced by compare-and-set only; its version is the document's. A Table is never changed once it
// was handed on: changes are made to a Clone.
type Table struct {
	Cluster  string
	Shards   uint32 // data shards: ids 0 to Shards-1; the system shard comes besides
	Replicas int    // target number of voters of each group
	Nodes    []Node // by id
	Groups   []Group
	// NextNumber is the number that the next replica gets, of whichever group. Numbers are never used again.
	NextNumber uint64
	// Secret is what ids of holds and decisions are sealed with. It never changes. A table of an older version has none.
	Secret Secret `json:",omitempty"`
}

// The documents of the system shard.
const (
	TableDocument    = "table"
	PoliciesDocument = "policies"
)

// Node is one registered node.
type Node struct {
	ID         string
	Zone       string `json:",omitempty"`
	Version    string `json:",omitempty"`
	APIAddr    string
	PeerAddr   string
	GossipAddr string
	State      NodeState
}

// NodeState says what a node is for. The numbers are kept on disk: append, never renumber.
type NodeState uint8

const (
	// NodeActive holds replicas and leads groups.
	NodeActive NodeState = iota
	// NodeDraining keeps its replicas and should lead nothing.
	NodeDraining
	// NodeLeaving is to lose its replicas; when it has none left it is NodeRemoved.
	NodeLeaving
	// NodeRemoved is no member any more. The id stays listed, and is not admitted again.
	NodeRemoved
)

// Group is the replicas of one shard.
type Group struct {
	Shard shard.ID
	Lead  string `json:",omitempty"` // node that should lead; "": whoever does
	// Founders are the nodes whose replicas of Number 1 were the group's first voters. It never changes: a founder that
	// is late creates its replica with the same first configuration as the others did, whoever was replaced since.
	Founders []string
	Replicas []Replica
}

// Replica is one copy of a shard. Its roles only go forward: learner, voter, leaving, and then it is not listed any
// more. So a node that acts on an old table does nothing that a newer one forbids.
type Replica struct {
	Node    string
	Number  uint64
	Role    Role
	Created bool `json:",omitempty"` // its stores were made: a node that has none of that number has lost it
	Lost    bool `json:",omitempty"` // its node says that the stores are gone, or must not be trusted
}

// Role says what a replica is on the way to. The numbers are kept on disk: append, never renumber.
type Role uint8

const (
	// Learner receives the log and does not vote; it becomes a voter when it has caught up.
	Learner Role = iota
	// Voter counts for the majority.
	Voter
	// Leaving is to be taken out of the group.
	Leaving
)
