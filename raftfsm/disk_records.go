package raftfsm

import (
	"fmt"
	"sync/atomic"
)

// keepPrefix starts the keys of the node's own records; the keys of groups start with a number.
const keepPrefix = "keep/"

// Keep writes a small record of the node, as JSON, and replaces any record with the same name. When it returns nil, the record
// survives a power cut. After an error either the old or the new record may be there.
func (s *Stores) Keep(name string, value any) error {
	err := s.poison.contain(func() error {
		var nobody atomic.Bool
		defer s.watchdog.begin("keeping "+name, &nobody)()
		return s.file.putJSON(keepPrefix+name, value)
	})
	if err != nil {
		return fmt.Errorf("keeping %q: %w", name, err)
	}
	return nil
}

// Kept reads the record that Keep last wrote under a name. Its error has ErrCorrupt in the chain if the bytes are not those
// written.
func (s *Stores) Kept(name string, into any) (found bool, err error) {
	err = s.poison.contain(func() error {
		err := s.file.getJSON(keepPrefix+name, into)
		found = err == nil
		if err == errNotFound {
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("reading what was kept as %q: %w", name, err)
	}
	return found, nil
}
