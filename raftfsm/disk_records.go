package raftfsm

import (
	"fmt"
	"sync/atomic"
)

// recordPrefix starts the keys of the node's own records; the keys of groups start with a number.
const recordPrefix = "keep/"

// PutRecord writes a small record of the node, as JSON, and replaces any record with the same name. When it returns
// nil, the record survives a power cut. After an error either the old or the new record may be there.
func (s *Stores) PutRecord(name string, value any) error {
	return during(fmt.Sprintf("keeping %q", name), s.fault.contain(func() error {
		var nobody atomic.Bool
		defer s.watchdog.begin(pendingWrite{what: "keeping " + name, inLine: true, hung: &nobody})()
		return s.file.putJSON(recordPrefix+name, value)
	}))
}

// ReadRecord reads the record that PutRecord last wrote under a name. Its error has ErrCorrupt in the chain if the
// bytes are not those written.
func (s *Stores) ReadRecord(name string, into any) (found bool, err error) {
	err = s.fault.contain(func() error {
		err := s.file.getJSON(recordPrefix+name, into)
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
