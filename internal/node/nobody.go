package node

import (
	"sync"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// nobody is the membership of a node that no other node can reach: the node itself.
type nobody struct {
	mu   sync.Mutex
	self gossip.Member
}

func newNobody(self gossip.Member) *nobody { return &nobody{self: self} }

func (m *nobody) Members() []gossip.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []gossip.Member{m.self}
}

func (m *nobody) SetCluster(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Cluster = id
	return nil
}

func (m *nobody) Announce(f gossip.Formation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Formation = &f
	return nil
}

func (m *nobody) AnnounceOwner(shard.ID, uint64) {}

func (m *nobody) Stop() {}
