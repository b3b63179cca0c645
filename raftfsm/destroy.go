package raftfsm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// DestroyGroup deletes what a replica that is not open has on this disk: its log, its terms and votes, its snapshots. A
// tombstone stays: the number can never be created or opened here again (ErrDestroyed), also if it never was. It can
// be repeated after a crash; OpenStores finishes what was begun.
func DestroyGroup(stores *Stores, replica Replica) error {
	if !stores.use(replica) {
		return fmt.Errorf("destroying %s: it is open: shut it down first", replica.Name(stores.identity.Node))
	}
	defer stores.release(replica)
	err := stores.poison.contain(func() error {
		if err := stores.condemn(replica); err != nil {
			return err
		}
		return stores.wipe(replica)
	})
	if err != nil {
		return fmt.Errorf("destroying %s: %w", replica.Name(stores.identity.Node), err)
	}
	return nil
}

// condemn writes the tombstone. From then on the replica is gone, whatever is left of it.
func (s *Stores) condemn(replica Replica) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putRecord(replica, func(g *groupRecord) { g.Destroyed = true })
}

// wipe deletes what is left of a condemned replica. The log goes as one range, however long it is; its terms and votes
// are overwritten, the file knows no deletion.
func (s *Stores) wipe(replica Replica) error {
	s.mu.Lock()
	wiped := slices.ContainsFunc(s.groups, func(g groupRecord) bool { return g.Replica == replica && g.Wiped })
	s.mu.Unlock()
	if wiped {
		return s.suspicion.clear(replica)
	}
	log, err := openLogStore(s.db, replica.logPrefix())
	if err != nil {
		return err
	}
	if err := log.DeleteRange(0, math.MaxUint64-1); err != nil {
		return err
	}
	for _, key := range []string{keyCurrentTerm, keyVoteFor} {
		if err := s.file.put(replica.stablePrefix()+key, nil); err != nil {
			return err
		}
	}
	if err := s.removeSnapshots(replica); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.putRecord(replica, func(g *groupRecord) { g.Wiped = true }); err != nil {
		return err
	}
	return s.suspicion.clear(replica)
}

func (s *Stores) removeSnapshots(replica Replica) error {
	dir := filepath.Join(s.dir, snapshotsName, replica.stablePrefix())
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := syncDir(filepath.Dir(dir))
	if errors.Is(err, os.ErrNotExist) { // no replica of this node ever ran
		return nil
	}
	return err
}

// finishDestructions goes on where a crash interrupted.
func (s *Stores) finishDestructions() error {
	for _, g := range slices.Clone(s.groups) {
		if g.Destroyed && !g.Wiped {
			if err := s.wipe(g.Replica); err != nil {
				return fmt.Errorf("finishing the destruction of %s: %w", g.Name(s.identity.Node), err)
			}
		}
	}
	return nil
}

// putRecord changes one replica's record, and makes one if there is none. s.mu is held.
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
