package api

import (
	"context"
	"io"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// ClusterAdmin administers the cluster for the API. It may be called concurrently. Errors are *shard.Error; its code
// says the fate: an action that the present state forbids (removal of the last node, another version) is
// shard.Conflict.
type ClusterAdmin interface {
	// Status returns the cluster as this node sees it.
	Status(ctx context.Context) (*stintv1.StatusResponse, error)
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
	Upgrade(ctx context.Context) (*stintv1.UpgradeStatusResponse, error)
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

// Picture is a snapshot of a shard for a backup. Both parts are of the same instant.
type Picture struct {
	io.WriterTo        // writes the snapshot
	Slots       []byte // shard.State.SlotRecords
}
