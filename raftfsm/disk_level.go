package raftfsm

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stint-io/stint/shard"
)

// pebbleFormats is the format of Pebble's files at each feature level. Pebble cannot go back from a format, so it is named here
// and not taken from the library: a newer Pebble must not change it before the cluster is allowed to leave the older release
// behind.
var pebbleFormats = map[shard.Level]pebble.FormatMajorVersion{
	shard.LevelFirst:  pebble.FormatValueSeparation,
	shard.LevelSound:  pebble.FormatValueSeparation,
	shard.LevelTrust:  pebble.FormatValueSeparation,
	shard.LevelBill:   pebble.FormatValueSeparation,
	shard.LevelNotify: pebble.FormatValueSeparation,
}

// readiness says whether a data directory is complete and, if so, its feature level, which limits how new its content may be. 0
// means not ready. 0.1.0 writes false or true (true is shard.LevelFirst) and refuses to read a number, so it does not open a
// directory that it might not understand.
type readiness shard.Level

// MarshalJSON implements json.Marshaler.
func (r readiness) MarshalJSON() ([]byte, error) {
	switch shard.Level(r) {
	case 0:
		return []byte("false"), nil
	case shard.LevelFirst:
		return []byte("true"), nil
	}
	return json.Marshal(uint32(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *readiness) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "false":
		*r = 0
	case "true":
		*r = readiness(shard.LevelFirst)
	default:
		return json.Unmarshal(b, (*uint32)(r))
	}
	return nil
}

// tooNew refuses a directory whose formats this binary may not know.
func (r *identityRecord) tooNew(newest shard.Level) error {
	if at := shard.Level(r.Ready); at > newest { //mutant:opens-a-newer-level
		return fmt.Errorf("written at level %d, this binary knows %d: start %s or newer, or restore an older backup", at,
			newest, cmp.Or(r.Release, "the release that wrote it"))
	}
	return nil
}

// Level returns the feature level of the directory. A binary that does not know the level does not open the directory.
func (s *Stores) Level() shard.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shard.Level(s.about.Ready)
}

// Raise raises the feature level of the directory. It must be called before anything of that level is written. A level at or
// below the current one changes nothing. When Raise returns nil, the level survives a power cut. release is this binary's
// release.
func (s *Stores) Raise(level shard.Level, release string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level <= shard.Level(s.about.Ready) {
		return nil
	}
	err := s.fault.contain(func() error {
		raised := s.about
		raised.Ready, raised.Release = readiness(level), release
		if err := s.file.putJSON(keyIdentity, raised); err != nil {
			return err
		}
		s.about = raised
		return s.db.RatchetFormatMajorVersion(pebbleFormats[level])
	})
	if err != nil {
		return fmt.Errorf("raising the data directory to level %d: %w", level, err)
	}
	return nil
}
