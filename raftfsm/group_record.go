package raftfsm

import (
	"fmt"
	"slices"
)

// groupRecord is the proof that a replica was created here by an explicit order.
type groupRecord struct {
	Replica
	Voters  []string // names of the first voters; empty for a replica that joins an existing group
	Created bool     // false: the creation was interrupted before the replica ever ran, and starts over

	Destroyed bool `json:",omitempty"` // the record is a tombstone: the number is not used again
	Wiped     bool `json:",omitempty"` // nothing is left of the destroyed replica

	Convicted *Conviction `json:",omitempty"` // non-nil: the replica is never opened again
}

// living lists the replicas that were created and not destroyed, in the order of their creation.
func living(groups []groupRecord) (all []Replica) {
	for _, g := range groups {
		if g.Created && !g.Destroyed {
			all = append(all, g.Replica)
		}
	}
	return all
}

// record returns the proof of a replica's creation.
func (s *Stores) record(replica Replica) (groupRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		switch {
		case g.Replica != replica:
		case g.Destroyed:
			return g, ErrDestroyed
		case g.Convicted != nil: //mutant:conviction-ends-with-the-process
			return g, errConvicted(g.Convicted)
		case g.Created:
			return g, nil
		}
	}
	return groupRecord{}, fmt.Errorf("it was never created here: %w", ErrLost) //mutant:opens-what-was-never-created
}

// putRecord changes the record of one replica, and creates it if there is none. s.mu must be held.
func (s *Stores) putRecord(replica Replica, change func(*groupRecord)) error {
	return s.putGroups(func(groups []groupRecord) []groupRecord {
		found := slices.IndexFunc(groups, func(g groupRecord) bool { return g.Replica == replica })
		if found < 0 {
			found, groups = len(groups), append(groups, groupRecord{Replica: replica})
		}
		change(&groups[found])
		return groups
	})
}

// putGroups changes the list of groups, on disk first.
func (s *Stores) putGroups(change func([]groupRecord) []groupRecord) error {
	groups := change(slices.Clone(s.groups))
	s.suspicion.know(groups) // first: if this write fails, the replicas that it names are suspect too
	if err := s.file.putJSON(keyGroups, groups); err != nil {
		return err
	}
	s.groups = groups
	return nil
}
