package raftfsm

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stint-io/stint/shard"
)

// pebbleFormat is the format of Pebble's files. Pebble cannot go back from a format, so it is named here and not taken
// from the library: a newer Pebble must not change it before the cluster is allowed to leave the older release behind,
// at a feature level.
const pebbleFormat = pebble.FormatValueSeparation

// directoryFormat is the format of a data directory. Builds before the first release wrote none.
const directoryFormat = 1

// identityRecord is the stored form of Identity, with the formats of the directory.
type identityRecord struct {
	Identity
	Format uint32 // directoryFormat
	// Level is the feature level of the directory, which limits how new its content may be. It is 0 until the log's
	// database is created: after a crash before that, the creation starts over.
	Level   shard.Level
	Release string `json:",omitempty"` // the release that raised the directory to its level
}

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

// Level returns the feature level of the directory. A binary that does not know the level does not open the directory.
func (s *Stores) Level() shard.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about.Level
}

// Raise raises the feature level of the directory. It must be called before anything of that level is written. A level
// at or below the current one changes nothing. When Raise returns nil, the level survives a power cut. release is this
// binary's release.
func (s *Stores) Raise(level shard.Level, release string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level <= s.about.Level {
		return nil
	}
	raised := s.about
	raised.Level, raised.Release = level, release
	if err := s.fault.contain(func() error { return s.file.putJSON(keyIdentity, raised) }); err != nil {
		return fmt.Errorf("raising the data directory to level %d: %w", level, err)
	}
	s.about = raised
	return nil
}
