package raftfsm

import (
	"encoding/binary"
	"fmt"

	"github.com/stint-io/stint/shard"
)

// Replica is one copy of a shard on this node. Its number is never used again: a replica that was wiped comes back
// under another number, because under the old one it would vote with a shorter memory.
type Replica struct {
	Shard  shard.ID
	Number uint64
}

// Name returns the name of the replica on a node, as the group's members know it. It is the replica's Raft id and its
// address.
func (r Replica) Name(node string) string { return fmt.Sprintf("%s/%d/%d", node, r.Shard, r.Number) }

// logPrefix has the same length for all replicas, so that none is a prefix of another.
func (r Replica) logPrefix() []byte {
	b := binary.BigEndian.AppendUint32([]byte{'l'}, uint32(r.Shard))
	return binary.BigEndian.AppendUint64(b, r.Number)
}

// stablePrefix is the prefix of the replica's keys in the bolt file.
func (r Replica) stablePrefix() string { return r.snapshotsDir() + "/" }

// snapshotsDir is the name of the replica's snapshot directory.
func (r Replica) snapshotsDir() string { return fmt.Sprintf("%d-%d", r.Shard, r.Number) }
