package backup

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Header is what a backup says of itself.
type Header struct {
	Cluster string      // id of the cluster
	Release string      // of the program that wrote the file
	Level   shard.Level // newest feature level that the pictures may contain
	Shards  uint32      // data shards; the system shard is not counted
	Begun   int64       // when the backup began, by the clock of the machine that wrote it, in Unix microseconds

	// of a backup that was made from the disks of nodes that had stopped; nil: it was not
	Recovery *Recovery `json:",omitempty"`
}

// DataExact reports whether nothing of the data shards is lost. A part of them is not enough: what an operation on
// several shards took on one may be known only on another.
func (h *Header) DataExact() bool {
	return h.Recovery != nil && len(h.Recovery.Shards) == int(h.Shards)+1 &&
		//mutant:one-lost-shard-not-filled
		!slices.ContainsFunc(h.Recovery.Shards[:h.Shards], func(s RecoveredFrom) bool { return !s.Exact })
}

// SystemExact reports whether nothing of the system shard is lost; then its tokens are whole.
func (h *Header) SystemExact() bool {
	return h.Recovery != nil && len(h.Recovery.Shards) == int(h.Shards)+1 && h.Recovery.Shards[h.Shards].Exact
}
