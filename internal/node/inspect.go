package node

import (
	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// Admin is the administration interface that the API uses, for a simulation, which holds the node and has no API.
func (n *Node) Admin() api.ClusterAdmin { return admin{n} }

// Standing is the state of one replica at one moment.
type Standing struct {
	raftfsm.Replica
	Epoch, Seq uint64
	Time       limit.Time
	Sum        uint64 // the fingerprint: replicas of one shard at one epoch and seq must agree
}

// Standings describes the state of each of this node's replicas. They keep running meanwhile.
func (n *Node) Standings() []Standing {
	var all []Standing
	for _, r := range n.replicas() {
		at := Standing{Replica: r.Replica}
		r.group.View(func(s *shard.State) { at.Epoch, at.Seq, at.Time, at.Sum = s.Epoch(), s.Seq(), s.Time(), s.Sum() })
		all = append(all, at)
	}
	return all
}
