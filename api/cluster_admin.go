package api

import (
	"context"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// ClusterAdmin is what the API asks of the cluster. It may be called concurrently. Errors are *shard.Error, whose code
// says the fate: what cannot be done as things stand (the last node, another version) is shard.Conflict.
type ClusterAdmin interface {
	// Status is the cluster as this node sees it.
	Status(ctx context.Context) (ClusterStatus, error)
	// Apply replaces the policies and answers the version that it made, with the shards that have not adopted it yet. If
	// expected is not nil and another version is in force, nothing changes and the error is a shard.Conflict.
	Apply(ctx context.Context, set *policy.Set, expected *uint64, note string) (version uint64, pending []uint32, err error)
	// Drain lets a node lead nothing, or with on = false lead again, and answers how many shards it still leads. It does
	// not wait. Node "" is the answering one.
	Drain(ctx context.Context, node string, on bool) (left int, err error)
	// RemoveNode begins to take a node out for good. It does not wait: Status says when the node is removed.
	RemoveNode(ctx context.Context, node string) error
}

// ClusterStatus is a cluster as one of its nodes sees it.
type ClusterStatus struct {
	ClusterID       string
	TableVersion    uint64
	PoliciesVersion uint64
	Nodes           []NodeStatus  // by id
	Shards          []ShardStatus // the system shard too
	Moves           []string      // changes under way, in words
	Problems        []string      // in words; empty: healthy
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
	Silent     time.Duration // since it was heard of last
	Owns       int           // shards
	Replicas   int
	ClockAhead time.Duration // of the answering node's clock; negative: behind
}

// ShardStatus is one shard.
type ShardStatus struct {
	ID              shard.ID
	Owner           string // node; "": nobody now
	Epoch           uint64
	Seq             uint64
	Time            limit.Time // shard time
	Keys            int
	PoliciesVersion uint64 // adopted
	Replicas        []ReplicaStatus
}

// ReplicaStatus is one copy of a shard.
type ReplicaStatus struct {
	Node   string
	Number uint64
	Role   string // learner, voter or leaving
	Lost   bool   // its stores are gone or cannot be trusted
	Lag    uint64 // log entries behind the owner
	Known  bool   // its node has reported: else Lag means nothing
}
