package cluster

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Report is what a node says about itself when another asks (Pulse). All of it is a hint: it was true when it was said.
type Report struct {
	Node            string
	WallMicros      int64 // its clock while it answered, since the Unix epoch
	TableVersion    uint64
	PoliciesVersion uint64
	Table           []byte `json:",omitempty"` // the document, if it is newer than the asker's
	Policies        []byte `json:",omitempty"` // likewise
	Stopping        bool   `json:",omitempty"`
	Full            bool   `json:",omitempty"` // its disk is nearly full: what it leads answers nobody
	Replicas        []ReplicaReport
}

// Fit tells whether the node may be given something to lead, or to hold.
func (r *Report) Fit() bool { return !r.Stopping && !r.Full }

// ReplicaReport is one replica of the reporting node.
type ReplicaReport struct {
	Shard           shard.ID
	Number          uint64
	Leading         bool       `json:",omitempty"`
	Epoch           uint64     // of its state
	Seq             uint64     // of its state
	Open            bool       `json:",omitempty"` // it owns the shard: its actor has an epoch open
	Time            limit.Time // shard time of its state
	Keys            int
	PoliciesVersion uint64 // adopted by its state
	Commit          uint64 // Raft index
	Applied         uint64 // Raft index
	// Members is the group's configuration, if the replica leads.
	Members []GroupMember `json:",omitempty"`
}

// GroupMember is one member of a Raft group.
type GroupMember struct {
	Name  string // node/shard/number
	Voter bool
}

// Question is what a node asks another for a Report.
type Question struct {
	TableVersion    uint64 // of the asker's table
	PoliciesVersion uint64
}
