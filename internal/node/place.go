package node

import (
	"fmt"
	"strings"
)

// checkPlace refuses to start a node that its cluster has removed, and one that its cluster could not reach.
func (n *Node) checkPlace() error {
	t := n.known.newest()
	if t.Table == nil {
		return nil
	}
	if n.removed(n.id) {
		return n.errRemoved()
	}
	if n.peers != nil || n.config.World.Listen != nil || n.config.mayBeJoined() {
		return nil
	}
	var others []string
	for _, node := range t.Listed() {
		if node.ID != n.id {
			others = append(others, node.ID)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: gossip-key: this node belongs to a cluster with %s, which could not reach it: %s", ErrConfig, strings.Join(others, ", "),
		keyForAll)
}

// errRemoved says what to do with a node that was removed. Its id is never admitted again, whatever its disk holds: votes are
// kept under its name.
func (n *Node) errRemoved() error {
	return fmt.Errorf("%w: %q no longer belongs to cluster %s, for good: to use this machine again, empty %s and start with "+
		"another --node-id", ErrRemoved, n.id, n.stores.Identity().Cluster, n.config.DataDir)
}
