package raftfsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// ErrStuck says that raft still believes in a leadership transfer that ended long ago, and therefore refuses every
// proposal (hashicorp/raft issue 696). The group must be shut down and opened again.
var ErrStuck = errors.New("the group is stuck in a leadership transfer: shut it down and open it again")

// Transfer hands the leadership to a voter; with to == "", to the one with the longest log among those that answer. It
// takes at most two election timeouts, during which raft refuses proposals (as certainly not applied). It returns nil
// only when this replica no longer leads, or did not lead in the first place; the others may elect a different leader.
// After an error this replica still leads, and can continue once it has a new epoch. With ErrStuck in the chain it
// cannot.
func (g *Group) Transfer(to string) error {
	if g.raft.State() != raft.Leader {
		return nil
	}
	if !g.transferring.TryLock() {
		return fmt.Errorf("%s: handing over the leadership: another transfer is under way", g.name)
	}
	defer g.transferring.Unlock()
	idle := time.Since(g.transferred)
	err := g.transfer(to)
	g.transferred = time.Now()
	if g.raft.State() != raft.Leader {
		return nil
	}
	switch {
	case err == nil:
		err = errors.New("it was elected again: try again")
	//mutant:stuck-transfer-retried-forever
	case errors.Is(err, raft.ErrLeadershipTransferInProgress) && idle > 2*g.electionTimeout():
		err = fmt.Errorf("%w: %w", err, ErrStuck)
	}
	return fmt.Errorf("%s: handing over the leadership to %q: %w", g.name, to, err)
}

func (g *Group) transfer(to string) error {
	to, err := g.successor(to)
	if err != nil {
		return err
	}
	if g.closing.Load() || !g.enter() {
		return errors.New("the group is closing, or its log is busy")
	}
	return g.ended(g.raft.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to)), 2*g.electionTimeout())
}

// successor checks or chooses the next leader. A voter that does not answer would leave the shard without an owner for
// an election timeout, and raft's own choice does not check that.
func (g *Group) successor(to string) (string, error) {
	members, _, err := g.Members()
	if err != nil {
		return "", err
	}
	best, found := contact{}, ""
	for _, m := range members {
		if !m.Voter || m.Name == g.name || to != "" && m.Name != to {
			continue
		}
		if c, ok := g.transport.heard(m.Name, g.electionTimeout()); ok && c.lastLog >= best.lastLog {
			best, found = c, m.Name
		}
	}
	if found == "" && to != "" {
		return "", errors.New("it is no other voter, or does not answer: choose another")
	}
	if found == "" {
		return "", errors.New("no other voter answers")
	}
	return found, nil
}
