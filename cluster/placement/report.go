package placement

import (
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Report is a node's answer to a Question (peer.HealthProbe). All of it is a hint: it was true when the node answered.
type Report struct {
	Node           string
	WallMicros     int64  // its clock while it answered, in microseconds since the Unix epoch
	TableVersion   uint64 // of the table that it knows
	SecretsVersion uint64 `json:",omitempty"` // of the secrets that it has written to disk
	// Documents are the shared documents of the system shard that are newer than the asker's. Never log them: secrets
	// are among them.
	Documents []NamedDocument `json:",omitempty"`
	More      bool            `json:",omitempty"` // Documents is incomplete: the rest comes with the next report
	// TokenUses is when tokens were last used, as far as this node knows, in Unix microseconds; set if
	// Question.TokenUses is.
	TokenUses map[string]int64 `json:",omitzero"`
	// Top is the answer to Question.Top; the report then has only Node and WallMicros besides.
	Top *top.Counts `json:",omitempty"`
	// Survivors is the answer to Question.Died; the report then has only Node and WallMicros besides.
	Survivors []Survivor `json:",omitempty"`
	// Watching is the answer to Question.Watch; the report then has only Node besides, and events follow.
	Watching bool       `json:",omitempty"`
	Levels   NodeLevels // without the ID, which is Node
	// Life is drawn by each process, and At is the address of its peer port. Both are "" until the process knows that
	// no other process is its node.
	Life string `json:",omitempty"`
	At   string `json:",omitempty"`
	// Taken is the address of another process that answers as the asking node; "" if there is none.
	Taken string `json:",omitempty"`
	// Twice names node ids that several processes use, for the operator.
	Twice []string `json:",omitempty"`
	// Fresh means that the node has known no table and founded no cluster: nothing on its disk was ever part of this
	// one.
	Fresh bool `json:",omitempty"`
	// RemovedBy is the version of the answering node's table if that table lists the asking node as removed; else 0.
	RemovedBy uint64 `json:",omitempty"`
	Stopping  bool   `json:",omitempty"`
	Full      bool   `json:",omitempty"` // its disk is nearly full: the shards that it leads answer nothing
	Replicas  []ReplicaReport
	Problems  []string `json:",omitempty"` // for the operator
	// Expiry of its certificates, for the operator; zero if there is none.
	APICertificateEnds  time.Time `json:",omitzero"`
	PeerCertificateEnds time.Time `json:",omitzero"`
	// Written and Release are for a node that the table does not list yet, and that gets no document: the feature level
	// that it must know, and the release that raised the cluster to it (Levels).
	Written shard.Level `json:",omitempty"`
	Release string      `json:",omitempty"`
	// KeyLines names the lines of its cluster key, the sending one first; empty without a cluster key.
	KeyLines []string `json:",omitempty"`
	Machine  *Machine `json:",omitempty"` // for the operator; nil if not measured yet
	Edges    int      `json:",omitempty"` // that are connected to the node
	Leases   int      `json:",omitempty"` // from which the node answers without asking the owners of their keys
	// FailingSinks are the sinks that did not take this node's last delivery, with the reason.
	FailingSinks map[string]string `json:",omitempty"`
	// SkippedBills are those that sinks were not sent, by sink, of the shards that this node owns.
	SkippedBills map[string]shard.SkippedBills `json:",omitempty"`
	// Moves are those of slots that this node drives and that wait.
	Moves []MoveReport `json:",omitempty"`
}

// MoveReport is a move of a slot that waits.
type MoveReport struct {
	Slot  slot.ID
	Waits string // for what, for the operator
	// Aside means that From still answers for the slot, and may for a long time: as long as a hold is open, or since it
	// was given back. Meanwhile, other slots move.
	Aside bool `json:",omitempty"`
}

// Machine is the state of the machine that a node runs on.
type Machine struct {
	DiskFree uint64 `json:",omitempty"` // bytes for the data directory; 0 if not known
	// LogWriteMean is of the log's writes in the last minute, each with its fsync; 0 if there was none.
	LogWriteMean    time.Duration `json:",omitempty"`
	LogWriteSlowest time.Duration `json:",omitempty"` // likewise
	Memory          uint64        // bytes that the process has
	MemoryLimit     uint64        // bytes that it may have
	RecordBytes     uint64        `json:",omitempty"` // of the records of all its replicas
	RecordLimit     uint64        // bytes of records that these may have
}

// NamedDocument is a version of a document of the system shard.
type NamedDocument struct {
	Name string
	shard.Document
}

// Fit reports whether the node may be given replicas or leads.
func (r *Report) Fit() bool { return !r.Stopping && !r.Full }

// ReplicaReport is one replica of the reporting node.
type ReplicaReport struct {
	Shard   shard.ID
	Number  uint64
	Leading bool       `json:",omitempty"`
	Epoch   uint64     // of its state
	Seq     uint64     // of its state
	Open    bool       `json:",omitempty"` // it owns the shard: its actor has an epoch open
	Time    limit.Time // shard time of its state
	Keys    int        // records of its state, with those that have ended and are not swept yet
	// NearCap are the policies that are close to their cap of keys, reported by the owner.
	NearCap         []shard.CapUse `json:",omitempty"`
	PoliciesVersion uint64         // version that its state has adopted
	Commit          uint64         // Raft index
	Applied         uint64         // Raft index
	// Sums are its newest sums, which the other replicas compare with theirs (Judge).
	Sums []shard.SumAt `json:",omitempty"`
	// Stopped is the reason why this replica decides nothing, even when it leads; "" if it does.
	Stopped string `json:",omitempty"`
	// Diverged means that its records are known to be wrong, so its sums do not count against other replicas.
	Diverged bool `json:",omitempty"`
	// Members is the group's Raft configuration, if the replica leads.
	Members []GroupMember `json:",omitempty"`
}

// GroupMember is one member of a Raft group.
type GroupMember struct {
	Name  string // node/shard/number
	Voter bool
}
