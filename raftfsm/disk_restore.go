package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// restoringName exists in a directory from before RestoreStores writes anything until all of it is on disk. A directory
// with it is not opened: half a restore must not start.
const restoringName = "restoring"

// errRestoring is the error of a directory with a restore that has not ended.
var errRestoring = errors.New("holds a restore that did not end: run stint restore again, or empty it")

// RestoreStores creates a data directory and fills it. dir must be empty, or not exist, or hold a restore that did not
// end, which starts over. fill makes the groups (SeedGroup). When RestoreStores returns nil, the directory is complete
// and on disk; until then OpenStores refuses it, also after a crash.
func RestoreStores(dir string, cfg StoresConfig, fill func(*Stores) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return during("data directory "+dir, restoreStores(newDisk(cfg.FS), dir, cfg, fill))
}

func restoreStores(d disk, dir string, cfg StoresConfig, fill func(*Stores) error) error {
	if err := makeDirs(d.small, dir); err != nil {
		return err
	}
	lock, err := d.small.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return lockError(err, "restore into an empty one")
	}
	if err := clearForRestore(d, dir); err != nil {
		return errors.Join(err, lock.Close())
	}
	cfg.filling = lock
	stores, err := OpenStores(dir, cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(stores), stores.Close()); err != nil {
		return err
	}
	if err := d.small.Remove(filepath.Join(dir, restoringName)); err != nil {
		return err
	}
	return syncDir(d.small, dir)
}

// clearForRestore marks an empty directory, or removes what a restore that did not end has left.
func clearForRestore(d disk, dir string) error {
	names, err := d.small.List(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == lockName || name == "lost+found" })
	begun := slices.ContainsFunc(names, func(name string) bool {
		return name == restoringName || name == restoringName+draftSuffix
	})
	if len(names) > 0 && !begun {
		return fmt.Errorf("is not empty (it has %q): a restore needs an empty one, or one that does not exist",
			names[0])
	}
	if err := writeWhole(d.small, filepath.Join(dir, restoringName), []byte("stint restore\n")); err != nil {
		return err
	}
	for _, name := range names {
		if name != restoringName {
			if err := d.small.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return syncDir(d.small, dir)
}

// refuseRestoring refuses a directory with a restore that has not ended.
func (s *Stores) refuseRestoring(filling io.Closer) error {
	there, err := isThere(s.disk.small, filepath.Join(s.dir, restoringName))
	if err == nil && there && filling == nil { //mutant:half-a-restore-starts
		err = errRestoring
	}
	return err
}

// SeedGroup makes the stores of a replica that is the only voter of its group and continues from a state. The log
// begins after index, as if the entries up to it had been taken into a snapshot; the state's newest epoch lies before
// it. The replica's name must never have been used in this cluster. An error leaves the directory unusable
// (RestoreStores).
func SeedGroup(stores *Stores, replica Replica, index, term uint64, state *shard.State) error {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	return during("filling "+replica.Name(stores.identity.Node), stores.fault.contain(func() error {
		return stores.seed(replica, index, term, state)
	}))
}

func (s *Stores) seed(replica Replica, index, term uint64, state *shard.State) error {
	name := replica.Name(s.identity.Node)
	if slices.ContainsFunc(s.groups, func(g groupRecord) bool { return g.Replica == replica }) {
		return errors.New("it was created before")
	}
	if index <= state.Epoch() || term < 1 {
		return fmt.Errorf("it is of epoch %d, and its log is to begin after %d of term %d", state.Epoch(), index, term)
	}
	stable := &stableStore{file: s.file, prefix: replica.stablePrefix()}
	if err := stable.SetUint64([]byte(keyCurrentTerm), term); err != nil {
		return err
	}
	snapshots, err := s.openSnapshots(replica)
	if err != nil {
		return err
	}
	alone := raft.Configuration{Servers: []raft.Server{voterNamed(name)}}
	sink, err := snapshots.Create(raft.SnapshotVersionMax, index, term, alone, index, nil)
	if err != nil {
		return err
	}
	if _, err := state.Snapshot().WriteTo(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	record := groupRecord{Replica: replica, Voters: []string{name}, Created: true}
	return s.putGroups(func(g []groupRecord) []groupRecord { return append(g, record) })
}
