package raftfsm

import (
	"fmt"

	"github.com/stint-io/stint/shard"
)

// Level returns the feature level of the directory. A binary that does not know the level does not open the directory.
func (s *Stores) Level() shard.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identityRecord.Level
}

// Raise raises the feature level of the directory. It must be called before anything of that level is written. A level
// at or below the current one changes nothing. When Raise returns nil, the level survives a power cut. release is this
// binary's release.
func (s *Stores) Raise(level shard.Level, release string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level <= s.identityRecord.Level {
		return nil
	}
	raised := s.identityRecord
	raised.Level, raised.Release = level, release
	if err := s.fault.contain(func() error { return s.file.putJSON(keyIdentity, raised) }); err != nil {
		return fmt.Errorf("raising the data directory to level %d: %w", level, err)
	}
	s.identityRecord = raised
	return nil
}
