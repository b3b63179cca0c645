package raftfsm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

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
