package raftfsm

import (
	"fmt"
	"math"
	"slices"
)

// DestroyGroup deletes the log, the terms and votes, and the snapshots of a replica that is not open. A tombstone
// stays: the number can never be created or opened here again (ErrDestroyed), even if the replica never existed.
// DestroyGroup can be repeated after a crash; OpenStores completes an interrupted one.
func DestroyGroup(stores *Stores, replica Replica) error {
	if !stores.use(replica) {
		return fmt.Errorf("destroying %s: it is open: shut it down first", replica.Name(stores.identity.Node))
	}
	defer stores.release(replica)
	return during("destroying "+replica.Name(stores.identity.Node), stores.fault.contain(func() error {
		if err := stores.condemn(replica); err != nil {
			return err
		}
		return stores.wipe(replica)
	}))
}

// condemn writes the tombstone. From then on the replica counts as gone, even if some of its data remains.
func (s *Stores) condemn(replica Replica) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putRecord(replica, func(g *groupRecord) { g.Destroyed = true })
}

// wipe deletes the remaining data of a condemned replica. The log goes as one range, however long it is. Its terms and
// votes are overwritten, because the file has no deletion.
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
	above := s.disk.PathJoin(s.dir, snapshotsName)
	if there, err := isThere(s.disk, above); !there { // no replica of this node ever ran
		return err
	}
	if err := s.disk.RemoveAll(s.disk.PathJoin(above, replica.snapshotsDir())); err != nil {
		return err
	}
	return syncDir(s.disk, above)
}

// finishDestructions completes destructions that a crash interrupted.
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
