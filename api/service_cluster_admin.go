package api

import (
	"context"
	"io"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// ClusterAdmin administers the cluster for the API. It may be called concurrently. Errors are *shard.Error; its code
// says the fate: an action that the present state forbids (removal of the last node, another version) is
// shard.Conflict.
type ClusterAdmin interface {
	// Status returns the cluster as this node sees it.
	Status(ctx context.Context) (ClusterStatus, error)
	// Apply replaces the policies. It returns the new version and the shards that have not adopted it yet. If expected
	// is not nil and another version is in force, nothing changes and the error is a shard.Conflict. who is the actor;
	// it goes to the history with the note.
	Apply(
		ctx context.Context, set *policy.Set, expected *uint64, rekey bool, who, note string,
	) (version uint64, pending []uint32, err error)
	// PolicyHistory returns the remembered versions of the policies and their actors, oldest first.
	PolicyHistory(ctx context.Context) ([]shard.DocumentChange, error)
	// History returns the remembered changes of tokens, secrets and sinks, in no order. The key of a record is the name
	// of the changed item.
	History(ctx context.Context) ([]shard.AuditRecord, error)
	// KeptPolicies returns the version in force and the earlier ones that are kept, oldest first. Their texts are
	// policies files.
	KeptPolicies(ctx context.Context) ([]shard.Document, error)
	// Ledger returns the id of the cluster's bills: drawn once, and kept by a restore.
	Ledger(ctx context.Context) (string, error)
	// Drain makes a node lead no shard, until it restarts if untilRestart is set, or with on = false lets it lead
	// again. It returns the number of shards that the node still leads, and does not wait. Node "" is the answering
	// one.
	Drain(ctx context.Context, node string, on, untilRestart bool) (left int, err error)
	// RemoveNode begins to remove a node permanently. It does not wait: Status shows when the node is removed.
	RemoveNode(ctx context.Context, node string) error
	// SetShards makes that many shards, 1 to placement.MaxShards, share all slots. It does not wait: Status shows what
	// is left to move. If expected is not nil and another ShardsRevision is in force, nothing changes and the error is
	// a shard.Conflict.
	SetShards(ctx context.Context, shards uint32, expected *uint64) error
	// Upgrade returns the feature levels as this node knows them.
	Upgrade(ctx context.Context) (UpgradeStatus, error)
	// PinLevel keeps the cluster from rising above a level; 0 removes the pin.
	PinLevel(ctx context.Context, level shard.Level) error
	// Picture returns a snapshot of a shard that contains every decision answered before the call.
	Picture(ctx context.Context, id shard.ID) (Picture, error)
	// ListKeys lists keys of this node's replica of a shard, which may be slightly behind. Without a replica that can
	// be trusted the error is shard.Unavailable.
	ListKeys(ctx context.Context, id shard.ID, q shard.Listing) (shard.Listed, error)
	// RecordBackup notes a complete backup of so many bytes.
	RecordBackup(ctx context.Context, begun time.Time, bytes uint64) error
	// FinishUpgrade makes the cluster rise as far as its nodes allow, and returns the target level. It does not wait.
	FinishUpgrade(ctx context.Context) (shard.Level, error)
}

// UpgradeStatus is the feature levels of a cluster.
type UpgradeStatus struct {
	Level      shard.Level  // the cluster's
	RisingTo   shard.Level  // 0 if it is not rising
	Pinned     shard.Level  // 0 if it is not pinned
	KnownByAll shard.Level  // the highest that all nodes know
	KnownSince time.Time    // zero if no level above Level is known to all nodes, or the level is pinned
	RisesAt    time.Time    // zero if the cluster does not rise by itself
	Nodes      []NodeLevels // by id
}

// NodeLevels is the feature levels of one node.
type NodeLevels struct {
	ID, Version    string
	Min, Max, Kept shard.Level // what its binary supports, and the level in its data directory
	Alive          bool
}

// ClusterStatus is a cluster as one of its nodes sees it.
type ClusterStatus struct {
	ClusterID       string
	TableVersion    uint64
	PoliciesVersion uint64
	Nodes           []NodeStatus  // by id
	Shards          []ShardStatus // with the system shard
	Moves           []string      // changes under way, in words
	Problems        []string      // in words; empty if the cluster is healthy
	LastBackup      time.Time     // when the newest complete backup began; zero if none, or not known
	Partial         bool          // contains only what every client may know

	WantedShards   uint32 // how many shards share all slots, or are to
	ShardsRevision uint64 // how often WantedShards was set
	SlotsToMove    int    // slots that move until all shards have equally many
	SlotMoves      []SlotMove
}

// SlotMove is a slot on its way from one shard to another.
type SlotMove struct {
	placement.Move
	Waits string // for what, in words; "" if for nothing
}

// whereabouts returns what every client may know: where the nodes answer, and which of them owns which shard, so that a
// client can ask the owner directly.
func (s *ClusterStatus) whereabouts() ClusterStatus {
	known := ClusterStatus{ClusterID: s.ClusterID, Partial: true}
	for _, n := range s.Nodes {
		known.Nodes = append(known.Nodes, NodeStatus{ID: n.ID, APIAddr: n.APIAddr, State: n.State, Alive: n.Alive})
	}
	for _, d := range s.Shards {
		known.Shards = append(known.Shards, ShardStatus{ID: d.ID, Owner: d.Owner, Slots: d.Slots})
	}
	return known
}

// NodeStatus is one registered node.
type NodeStatus struct {
	ID         string
	Zone       string
	Version    string // release of its binary
	APIAddr    string
	PeerAddr   string
	State      string // active, draining, leaving or removed
	Alive      bool
	Silent     time.Duration // since the last message from it
	Owns       int           // number of shards
	Replicas   int
	ClockAhead time.Duration // ahead of the answering node's clock; negative if behind

	APICertificateEnds  time.Time // expiry of the certificate for clients; zero if none, or not known
	PeerCertificateEnds time.Time // expiry of the certificate for other nodes; likewise
	// KeyLines are the names of the lines of its cluster key, the sending one first; empty without such a key, or if
	// not known.
	KeyLines []string

	Machine  *placement.Machine // nil if not known
	DiskFull bool               // the node refuses what would be written
}

// ShardStatus is one shard.
type ShardStatus struct {
	ID              shard.ID
	Owner           string // node id; "" if there is none at the moment
	Epoch           uint64
	Seq             uint64
	Time            limit.Time // shard time
	Keys            int
	PoliciesVersion uint64 // version that the owner has adopted
	Slots           []slot.Range
	Replicas        []ReplicaStatus
}

// ReplicaStatus is one copy of a shard.
type ReplicaStatus struct {
	Node   string
	Number uint64
	Role   string // learner, voter or leaving
	Lost   bool   // its stores are gone or cannot be trusted
	Lag    uint64 // log entries behind the owner
	Known  bool   // its node has reported; else Lag means nothing
}

// Picture is a snapshot of a shard for a backup.
type Picture struct {
	io.WriterTo
	Slots []byte // shard.State.SlotRecords
}
