package raftfsm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hashicorp/raft"
)

// CreateGroup makes the stores of a replica. voters names the first members of the group (Replica.Name), including this
// replica, and is the same on each of them. Without voters the replica joins an existing group; the leader of the group
// adds it later.
//
// CreateGroup is the only way to bring a replica into being. OpenGroup refuses a replica that was not created here,
// because an empty store cannot tell a new replica from one that lost everything. CreateGroup can be repeated after a
// crash, and does nothing for a replica that was already created with the same voters. Its error has ErrDestroyed in
// the chain for a replica that was destroyed here.
func CreateGroup(stores *Stores, replica Replica, voters []string) error {
	return during("creating "+replica.Name(stores.identity.Node), stores.fault.contain(func() error {
		created, err := stores.announce(replica, voters)
		if err != nil || created {
			return err
		}
		defer stores.release(replica)
		// No lock is held meanwhile: on a slow disk, a node that founds a shard could not say its level.
		if err := stores.bootstrap(replica, voters); err != nil {
			return err
		}
		stores.mu.Lock()
		defer stores.mu.Unlock()
		return stores.putRecord(replica, func(g *groupRecord) { g.Created = true })
	}))
}

// announce records that a replica is to be created, and marks it as running until then. It returns true, and marks
// nothing, if the replica was created before.
func (s *Stores) announce(replica Replica, voters []string) (created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slices.IndexFunc(s.groups, func(g groupRecord) bool { return g.Replica == replica })
	switch {
	case found >= 0 && s.groups[found].Destroyed: //mutant:number-used-again
		return false, ErrDestroyed
	case found >= 0 && !slices.Equal(s.groups[found].Voters, voters):
		return false, fmt.Errorf("it was created before, with voters %v instead of %v", s.groups[found].Voters, voters)
	case found >= 0 && s.groups[found].Created:
		return true, nil
	case s.open[replica]:
		return false, errors.New("it is being created or destroyed")
	case found < 0:
		record := groupRecord{Replica: replica, Voters: voters}
		if err := s.putGroups(func(g []groupRecord) []groupRecord { return append(g, record) }); err != nil {
			return false, err
		}
	}
	s.open[replica] = true
	return false, nil
}

func voterNamed(name string) raft.Server {
	return raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(name), Address: raft.ServerAddress(name)}
}

// bootstrap writes the first entry of the log, the group's configuration. It replaces the remains of an interrupted
// bootstrap.
func (s *Stores) bootstrap(replica Replica, voters []string) error {
	if len(voters) == 0 {
		return nil
	}
	name := replica.Name(s.identity.Node)
	if !slices.Contains(voters, name) {
		return errors.New("it is not among its own group's voters")
	}
	log, err := openLogStore(s.db, replica.logPrefix())
	if err != nil {
		return err
	}
	if err := log.DeleteRange(0, math.MaxUint64-1); err != nil {
		return err
	}
	var members raft.Configuration
	for _, voter := range voters {
		members.Servers = append(members.Servers, voterNamed(voter))
	}
	stable := &stableStore{file: s.file, prefix: replica.stablePrefix()}
	if err := stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil {
		return err
	}
	return log.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(members)})
}

// use marks a replica as running. It returns false if the replica is running already.
func (s *Stores) use(replica Replica) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[replica] {
		return false
	}
	s.open[replica] = true
	return true
}

// release ends what use or announce began.
func (s *Stores) release(replica Replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, replica)
}
