package node

import (
	"cmp"
	"sync"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// Membership is what a node needs from gossip. gossip.Gossip implements it. Its methods may be called concurrently.
type Membership interface {
	// Members lists the nodes that gossip knows, including this one.
	Members() []gossip.Member
	// Silent lists the known addresses at which no node could be joined the last time.
	Silent() []string
	// SetCluster announces that this node belongs to a cluster. It fails if the node belongs to another one.
	SetCluster(id string) error
	// Announce announces a formation that this node proposed or accepted, and its cluster at the same time.
	Announce(f gossip.Formation) error
	// SetKeys replaces the keys of gossip that has keys: the first one sends, all are accepted.
	SetKeys(keys [][]byte) error
	// Stop leaves with a goodbye.
	Stop()
	// AnnounceOwner announces that this node opened an epoch of a shard.
	AnnounceOwner(id shard.ID, epoch uint64)
}

// gossipMembership is gossip.Start, but on an error it returns a nil interface, not one that holds a nil pointer.
func gossipMembership(config gossip.Config) (Membership, error) {
	g, err := gossip.Start(config)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// startGossip announces this node. A node that no other node can join has no gossip.
func (n *Node) startGossip() (err error) {
	if n.ports.peers == nil {
		n.peers.gossip = newSoloMembership(n.self())
		return nil
	}
	self := n.self()
	config := gossip.Config{
		Member:     self,
		Addr:       n.config.GossipAddr,
		Advertise:  n.config.Advertise,
		Seeds:      n.config.Join,
		Keys:       n.gossipKeys,
		Insecure:   n.config.InsecurePeers,
		Registered: n.view.gossipAddrs,
		OnChange:   n.membersChanged,
		Hints:      n.hints,
		Streams:    n.ports.limits.shares.Gossip,
		OnRefused:  func(why string) { n.metrics.Refused("gossip", why) },
		Logger:     n.config.Logger,
	}
	config.PeerAddr = n.ports.peers.Addr().String()
	n.peers.gossip, err = n.config.World.Gossip(config)
	if err != nil && n.config.alone() && n.config.GossipAddr == defaultGossipAddr {
		n.config.Logger.Warn("no other node can join this one; --gossip-addr names another port", "error", err)
		n.peers.gossip, err = newSoloMembership(self), nil
	}
	return err
}

// membersChanged wakes what waits for nodes, and asks new ones at once: they are registered by their answer.
func (n *Node) membersChanged() {
	n.router.Wake()
	n.changed.notify()
	n.peers.ask()
}

// self describes this node as gossip would.
func (n *Node) self() gossip.Member {
	self := n.founder.self()
	self.Zone, self.Version, self.State = n.config.Zone, n.config.Version, gossip.MemberAlive
	self.PeerAddr, self.GossipAddr = n.config.PeerAddr, n.config.GossipAddr
	self.APIAddr = cmp.Or(addrOf(n.ports.listener), n.config.APIAddr)
	return self
}

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

func (m *soloMembership) SetKeys([][]byte) error { return nil }

func (m *soloMembership) Silent() []string { return nil }

func (m *soloMembership) AnnounceOwner(shard.ID, uint64) {}

func (m *soloMembership) Stop() {}
