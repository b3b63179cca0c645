package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// errNoTable is the error of a request that needs the table, before this node knows one.
var errNoTable = &shard.Error{Code: shard.Unavailable,
	Message: "this node does not know the cluster's table yet; ask again"}

// newTableDocument makes the document of the table. It is on disk before this node acts on it: after a restart, a
// replica that one table created must not seem to be listed by none.
func (v *clusterView) newTableDocument() *document[placement.Table] {
	return newDocument(documentConfig[placement.Table]{
		of:     v.documents,
		name:   placement.TableDocument,
		what:   "table",
		decode: func(d shard.Document) (*placement.Table, error) { return placement.DecodeTable(d.Body) },
		encode: (*placement.Table).Encode,
		kept:   true,
		admit:  v.admitTable,
		learned: func(_, _ known[placement.Table]) {
			if v.hasLeft() {
				v.fail(v.errRemoved())
			}
			v.onTable()
		},
	})
}

// admitTable refuses a table in which another node has the id of this one, which was removed before. What this node
// knows on its disk stays as it was, so that it is told again whenever it is started.
func (v *clusterView) admitTable(t *placement.Table) error {
	if !v.fresh() && t.Incarnation(v.node) > v.newestTable().Incarnation(v.node) { //mutant:removed-disk-takes-part
		return v.errRemoved()
	}
	return nil
}

// fresh reports whether nothing on this node's disk was ever part of the cluster.
func (v *clusterView) fresh() bool { return !v.hasTable() && v.founding.Load() == nil }

// newestTable is the newest known table; while none is known, one without nodes and groups.
func (v *clusterView) newestTable() *placement.Table { return v.table.now().value }

// hasTable reports whether this node knows a table.
func (v *clusterView) hasTable() bool { return v.table.now().version > 0 }

// changeTable replaces the newest version of the table by change's result; nil changes nothing.
func (v *clusterView) changeTable(ctx context.Context, change func(*placement.Table) *placement.Table) error {
	return v.table.change(ctx, nil, func(now known[placement.Table]) (*placement.Table, error) {
		if now.version == 0 {
			return nil, errNoTable
		}
		return change(now.value), nil
	})
}

// voterNodes names the nodes of a shard's voters: by the table, or by the founding as long as there is no table.
func (v *clusterView) voterNodes(id shard.ID) []string {
	if !v.hasTable() {
		return v.foundingNodes(id)
	}
	g := v.newestTable().Group(id)
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
func (v *clusterView) shards() int { return int(v.newestTable().Shards) }

// slots returns the shard of each slot; nil while the table is unknown.
func (v *clusterView) slots() *slot.Map { return v.newestTable().Slots }

// room is what a shard has by its slots; all of them while the table is unknown.
func (v *clusterView) room(id shard.ID) shard.Room {
	if slots := v.slots(); slots != nil {
		return shard.Room{Slots: slots.Owned(uint32(id))}
	}
	return shard.Room{}
}

// listed is the number of nodes that belong to the cluster; 0 while no table is known.
func (v *clusterView) listed() int { return len(v.newestTable().Listed()) }

// hasSessions reports whether requests to a shard travel in sessions. A shard with one replica needs none: no other
// node could take over and be asked again.
func (v *clusterView) hasSessions(id shard.ID) bool {
	g := v.newestTable().Group(id)
	return g != nil && len(g.Replicas) > 1
}

// copies is how many nodes besides the owner have every reply on disk before it is sent: that of the shard with the
// fewest.
func (v *clusterView) copies() (fewest int) {
	t := v.newestTable()
	for i := range t.Groups {
		if others := len(t.Groups[i].Voters()) / 2; i == 0 || others < fewest {
			fewest = others
		}
	}
	return fewest
}

// clustered reports whether another node could serve in this node's place.
func (v *clusterView) clustered() bool { return len(v.newestTable().Nodes) > 1 }

// others lists the other nodes that belong to the cluster.
func (v *clusterView) others() []placement.Node {
	return slices.DeleteFunc(v.newestTable().Listed(), func(n placement.Node) bool { return n.ID == v.node })
}

// gossipAddrs lists the gossip addresses of the other registered nodes.
func (v *clusterView) gossipAddrs() (addrs []string) {
	for _, node := range v.others() {
		addrs = append(addrs, node.GossipAddr)
	}
	return addrs
}

// listing says whether a node belongs to the cluster: by the table, or by the founding as long as there is no table.
func (v *clusterView) listing(node string) peer.Listing {
	if !v.hasTable() {
		if f := v.founding.Load(); f != nil && slices.Contains(f.Founders, node) {
			return peer.Listed
		}
		return peer.Unlisted
	}
	switch listed := v.newestTable().Node(node); {
	case listed == nil:
		return peer.Unlisted
	case listed.State == placement.NodeRemoved:
		return peer.Removed
	}
	return peer.Listed
}

// hasLeft reports whether this node has nothing to do in the cluster any more. It stops then, and its clients go
// elsewhere, before the other nodes cut its connections.
func (v *clusterView) hasLeft() bool {
	return v.expelled.Load() || v.newestTable().Left(v.node)
}

// expel stops this node, which other nodes refuse as removed. They do so from the moment they know it, which may be
// before this node has heard of the table that says it.
func (v *clusterView) expel() {
	v.expelled.Store(true)
	v.fail(v.errRemoved())
}

// errRemoved says what to do with a node that was removed. Its disk is never admitted again: votes are kept under the
// names of its replicas. Its id is admitted with another disk: its replicas get other names.
func (v *clusterView) errRemoved() error {
	return fmt.Errorf("%w: %q no longer belongs to cluster %s with this disk: "+
		"to add it anew, empty %s and start it again",
		ErrRemoved, v.node, v.dir.cluster(), v.dir.path)
}

// checkPlace refuses to start a node that its cluster has removed, and one that its cluster could not reach.
func (v *clusterView) checkPlace(reachable bool) error {
	if v.hasLeft() {
		return v.errRemoved()
	}
	var others []string
	for _, node := range v.others() {
		others = append(others, node.ID)
	}
	if reachable || len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: cluster-key: this node belongs to a cluster with %s, which could not reach it: %s",
		ErrConfig, strings.Join(others, ", "), keyForAll)
}

// nodeOf extracts the node's id from a replica's name, node/shard/number: an id has no slash. The result for another
// text is "".
func nodeOf(name string) string {
	return name[:max(0, strings.IndexByte(name, '/'))]
}
