package gossip

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// MemberState is the state of a node according to gossip. It is a hint, never a reason to change voters.
type MemberState int

const (
	// MemberAlive answers probes.
	MemberAlive MemberState = iota + 1
	// MemberSuspect stopped answering without notice: it may be dead, cut off, or slow.
	MemberSuspect
	// MemberLeft announced that it is stopping.
	MemberLeft
)

// String implements fmt.Stringer.
func (s MemberState) String() string { return [...]string{"unknown", "alive", "suspect", "left"}[s] }

// Member is one node as gossip sees it.
type Member struct {
	Node       string
	Cluster    string // "" if in no cluster yet
	Zone       string
	Version    string
	GossipAddr string // host:port, like the two addresses below
	PeerAddr   string
	APIAddr    string
	State      MemberState
	Expect     int        // number of nodes that it wants to found a cluster with; 0 if it only joins
	Formation  *Formation // the one it proposed or accepted; may be nil; must not be changed
}

// rememberGone is how long a node that is gone stays listed.
const rememberGone = time.Hour

// members is our own list of nodes. memberlist's list returns pointers to data that it keeps changing, and does not
// distinguish a node that left from one that failed. This list is filled by memberlist's callbacks, which hold
// memberlist's lock: nothing here may call memberlist.
type members struct {
	mu      sync.Mutex
	self    Member                 // what this node announces; changed only under Gossip.announce
	byNode  map[string]memberEntry // with this node, as memberlist has heard of it
	changed chan struct{}          // holds one signal; never blocks
}

type memberEntry struct {
	Member
	addr   netip.AddrPort // GossipAddr, in the form of a resolved seed
	goneAt time.Time      // zero if it answers
}

func newMembers(self Member) *members {
	return &members{self: self, byNode: map[string]memberEntry{}, changed: make(chan struct{}, 1)}
}

// put lists a node that answers.
func (m *members) put(n *memberlist.Node) {
	told, err := decodeMeta(n.Meta)
	if err != nil {
		return // NotifyAlive keeps such nodes out
	}
	ip, _ := netip.AddrFromSlice(n.Addr)
	addr := netip.AddrPortFrom(ip.Unmap(), n.Port)
	told.Node, told.GossipAddr = n.Name, addr.String()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byNode[n.Name] = memberEntry{Member: told, addr: addr}
	m.signal()
}

// gone marks a node that no longer answers.
func (m *members) gone(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.byNode[node]
	if !ok {
		return
	}
	if entry.State == MemberAlive {
		entry.State = MemberSuspect
	}
	entry.goneAt = time.Now()
	m.byNode[node] = entry
	m.signal()
}

// admits reports whether a node with this meta may be listed: nodes of another cluster may not. If the node was listed
// before it joined another cluster, admits removes it.
func (m *members) admits(node string, told Member) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !foreign(m.self.Cluster, told.Cluster) {
		return true
	}
	if _, listed := m.byNode[node]; listed {
		delete(m.byNode, node)
		m.signal()
	}
	return false
}

// become replaces the meta of this node. Once it is in a cluster, nodes of other clusters are removed from the list.
func (m *members) become(self Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self = self
	for node, entry := range m.byNode {
		if foreign(self.Cluster, entry.Cluster) {
			delete(m.byNode, node)
		}
	}
	m.signal()
}

// foreign reports whether two cluster ids keep nodes apart. A node without an id sees all nodes and is seen by all.
func foreign(a, b string) bool { return a != "" && b != "" && a != b }

func (m *members) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// list returns the nodes by id. It forgets nodes that have been gone for longer than rememberGone.
func (m *members) list() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make([]Member, 0, len(m.byNode))
	for node, entry := range m.byNode {
		if !entry.goneAt.IsZero() && time.Since(entry.goneAt) > rememberGone {
			delete(m.byNode, node)
			continue
		}
		found = append(found, entry.Member)
	}
	slices.SortFunc(found, func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	return found
}

// answering returns the gossip addresses of the nodes that answer, including this one.
func (m *members) answering() map[netip.AddrPort]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[netip.AddrPort]bool, len(m.byNode))
	for _, entry := range m.byNode {
		if entry.goneAt.IsZero() {
			found[entry.addr] = true
		}
	}
	return found
}

func (m *members) own() Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}
