package node

import (
	"sync"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// soloMembership is the membership of a node that no other node can reach: the node itself.
type soloMembership struct {
	mu   sync.Mutex
	self gossip.Member
}

func newSoloMembership(self gossip.Member) *soloMembership { return &soloMembership{self: self} }

func (m *soloMembership) Members() []gossip.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []gossip.Member{m.self}
}

func (m *soloMembership) SetCluster(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Cluster = id
	return nil
}

func (m *soloMembership) Announce(f gossip.Formation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Formation = &f
	return nil
}

func (m *soloMembership) AnnounceOwner(shard.ID, uint64) {}

func (m *soloMembership) Stop() {}
