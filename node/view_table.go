package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// readKeptTable restores the table that this node wrote down before.
func (v *clusterView) readKeptTable() error {
	var kept documentRecord
	found, err := v.dir.read(recordTable, &kept)
	if err != nil || !found {
		return err
	}
	table, err := placement.DecodeTable(kept.Text)
	if err != nil {
		return fmt.Errorf("the table kept in the data directory: %w", err)
	}
	v.table.Store(&knownTable{table, kept.Version, kept.Text})
	return nil
}

// voterNodes names the nodes of a shard's voters: by the table, or by the founding as long as there is no table.
func (v *clusterView) voterNodes(id shard.ID) []string {
	t := v.newestTable()
	if t.Table == nil {
		return v.foundingNodes(id)
	}
	g := t.Group(id)
	if g == nil {
		return nil
	}
	var nodes []string
	for _, voter := range g.Voters() {
		nodes = append(nodes, voter.Node)
	}
	return nodes
}

// foundingNodes names the nodes of the system shard's first voters, as long as no table does.
func (v *clusterView) foundingNodes(id shard.ID) []string {
	f := v.founding.Load()
	if f == nil || id != shard.System {
		return nil
	}
	var nodes []string
	for _, name := range placement.SystemVoters(f.Founders, f.Replicas) {
		nodes = append(nodes, nodeOf(name))
	}
	return nodes
}

// shards is the number of data shards; 0 while no table is known.
func (v *clusterView) shards() int {
	if t := v.newestTable(); t.Table != nil {
		return int(t.Shards)
	}
	return 0
}

// listed is the number of nodes that belong to the cluster; 0 while no table is known.
func (v *clusterView) listed() int {
	if t := v.newestTable(); t.Table != nil {
		return len(t.Listed())
	}
	return 0
}

// hasSessions reports whether requests to a shard travel in sessions. A shard with one replica needs none: no other node
// could take over and be asked again.
func (v *clusterView) hasSessions(id shard.ID) bool {
	t := v.newestTable()
	if t.Table == nil {
		return false
	}
	g := t.Group(id)
	return g != nil && len(g.Replicas) > 1
}

// copies is how many nodes besides the owner have every reply on disk before it is sent: that of the shard with the fewest.
func (v *clusterView) copies() (fewest int) {
	t := v.newestTable()
	if t.Table == nil {
		return 0
	}
	for i := range t.Groups {
		if others := len(t.Groups[i].Voters()) / 2; i == 0 || others < fewest {
			fewest = others
		}
	}
	return fewest
}

// clustered reports whether another node could serve in this node's place.
func (v *clusterView) clustered() bool {
	t := v.newestTable()
	return t.Table != nil && len(t.Nodes) > 1
}

// gossipAddrs lists the gossip addresses of the other registered nodes.
func (v *clusterView) gossipAddrs() (addrs []string) {
	t := v.newestTable()
	if t.Table == nil {
		return nil
	}
	for _, node := range t.Listed() {
		if node.ID != v.node {
			addrs = append(addrs, node.GossipAddr)
		}
	}
	return addrs
}

// listing says whether a node belongs to the cluster: by the table, or by the founding as long as there is no table.
func (v *clusterView) listing(node string) peer.Listing {
	t := v.newestTable()
	if t.Table == nil {
		if f := v.founding.Load(); f != nil && slices.Contains(f.Founders, node) {
			return peer.Listed
		}
		return peer.Unlisted
	}
	switch listed := t.Node(node); {
	case listed == nil:
		return peer.Unlisted
	case listed.State == placement.NodeRemoved:
		return peer.Removed
	}
	return peer.Listed
}

// removed reports whether a node was removed from the cluster.
func (v *clusterView) removed(node string) bool { return v.listing(node) == peer.Removed }

// left reports whether this node has nothing to do in the cluster any more. It stops then, and its clients go elsewhere, before the
// other nodes cut its connections.
func (v *clusterView) left() bool {
	t := v.newestTable()
	return v.expelled.Load() || t.Table != nil && t.Left(v.node)
}

// expel stops this node, which other nodes refuse as removed. They do so from the moment they know it, which may be before this
// node has heard of the table that says it.
func (v *clusterView) expel() {
	v.expelled.Store(true)
	v.fail(v.errRemoved())
}

// errRemoved says what to do with a node that was removed. Its id is never admitted again, whatever its disk holds: votes are
// kept under its name.
func (v *clusterView) errRemoved() error {
	return fmt.Errorf("%w: %q no longer belongs to cluster %s, for good: to use this machine again, empty %s and start with "+
		"another --node-id", ErrRemoved, v.node, v.dir.cluster(), v.dir.path)
}

// checkPlace refuses to start a node that its cluster has removed, and one that its cluster could not reach.
func (v *clusterView) checkPlace(reachable bool) error {
	t := v.newestTable()
	if t.Table == nil {
		return nil
	}
	if v.left() {
		return v.errRemoved()
	}
	if reachable {
		return nil
	}
	var others []string
	for _, node := range t.Listed() {
		if node.ID != v.node {
			others = append(others, node.ID)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: cluster-key: this node belongs to a cluster with %s, which could not reach it: %s", ErrConfig, strings.Join(others, ", "),
		keyForAll)
}

// nodeOf extracts the node's id from a replica's name, node/shard/number: an id has no slash.
func nodeOf(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return ""
}
