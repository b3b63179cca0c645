package raftfsm

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/stint-io/stint/shard"
)

// Identity says to which cluster and node a data directory belongs. It never changes.
type Identity struct {
	Cluster string
	Node    string
}

// identityRecord is the stored form of Identity, with the formats of the directory.
type identityRecord struct {
	Identity
	Format uint32 // directoryFormat; 0: a build before the first release
	// Level is the feature level of the directory, which limits how new its content may be. It is 0 until the log's
	// database is created: after a crash before that, the creation starts over.
	Level   shard.Level
	Release string `json:",omitempty"` // the release that raised the directory to its level
}

// directoryFormat is the format of a data directory. Builds before the first release wrote none.
const directoryFormat = 1

var errBeforeFirstRelease = errors.New("was written by a build before the first release, " +
	"whose formats no release reads: move it away and start the node with an empty one")

// unknown refuses a directory with formats that this binary may not know.
func (r *identityRecord) unknown(newest shard.Level) error {
	switch {
	case r.Format != directoryFormat: //mutant:opens-a-directory-of-any-format
		return errBeforeFirstRelease
	case r.Level > newest: //mutant:opens-a-newer-level
		return fmt.Errorf("written at level %d, this binary knows %d: start %s or newer, or restore an older backup",
			r.Level, newest, cmp.Or(r.Release, "the release that wrote it"))
	}
	return nil
}
