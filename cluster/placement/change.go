package placement

import (
	"fmt"

	"github.com/stint-io/stint/shard"
)

// ChangeKind is a change that the leader of a group should make, to the group or to the table.
type ChangeKind int

// The changes that the leader of a group makes.
const (
	// AddLearner adds a member without a vote to the Raft configuration.
	AddLearner ChangeKind = iota + 1
	// Promote gives a member its vote.
	Promote
	// Remove takes a member out of the Raft configuration.
	Remove
	// TransferAway transfers the leadership to Name, because the leader itself is leaving.
	TransferAway
	// RecordVoter records in the table that a learner has its vote (Table.ApplyVoter).
	RecordVoter
	// RecordGone records in the table that a leaving replica is no longer a member (Table.ApplyGone).
	RecordGone
	// Stray is a member that the table listed once and no longer lists: a leader with an old table added it again. It
	// can be removed like a leaving one, because no later table lists it.
	Stray
	// Unknown is a member that the table has never listed. It may be newer than the table, and is left alone.
	Unknown
)

// Change is one step of a leader.
type Change struct {
	Kind   ChangeKind
	Shard  shard.ID
	Name   string // of the replica: node/shard/number
	Node   string // of the replica; "" if the name is malformed
	Number uint64 // of the replica; 0 if the name is malformed
}

// ofRaft reports whether the change is one of the Raft group, rather than of the table or a mere notice.
func (c Change) ofRaft() bool {
	return c.Kind == AddLearner || c.Kind == Promote || c.Kind == Remove || c.Kind == TransferAway || c.Kind == Stray
}

// String describes the change for the log.
func (c Change) String() string {
	switch c.Kind {
	case AddLearner:
		return c.Name + " receives the log"
	case Promote:
		return c.Name + " has caught up and gets its vote"
	case Remove, Stray:
		return c.Name + " is taken out of the group"
	case TransferAway:
		return "leadership goes to " + c.Name
	case RecordVoter:
		return c.Name + " is a voter"
	case RecordGone:
		return c.Name + " is gone"
	}
	return fmt.Sprintf("%s is not known", c.Name)
}
