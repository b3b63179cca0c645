package node

import (
	"sync"

	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/shard"
)

// nobody is the membership of a node that no other node can reach: the node itself.
type nobody struct {
	mu   sync.Mutex
	self cluster.Member
}

func newNobody(self cluster.Member) *nobody { return &nobody{self: self} }

func (m *nobody) Members() []cluster.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []cluster.Member{m.self}
}

func (m *nobody) SetCluster(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Cluster = id
	return nil
}

func (m *nobody) Announce(f cluster.Formation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Formation = &f
	return nil
}

func (m *nobody) AnnounceOwner(shard.ID, uint64) {}

func (m *nobody) Stop() {}
