package node

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/sleep"
)

// keyRefreshEvery is how often the cluster key file is read; a change is in force after two looks.
const keyRefreshEvery = time.Second

// openKeys reads the keys by which nodes recognize each other, if there are any.
func (n *Node) openKeys() (err error) {
	if n.key, err = n.config.clusterKey(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if n.key != nil {
		n.gossipKeys = n.key.Key().GossipKeys()
	}
	return nil
}

// watchKey puts changes of the cluster key file in force until the node stops: a rotation needs no restart.
func (n *Node) watchKey() {
	for sleep.For(n.ctx, keyRefreshEvery) {
		if !n.key.Refresh() {
			continue
		}
		if err := n.peers.gossip.SetKeys(n.key.Key().GossipKeys()); err != nil {
			n.config.Logger.Error("cluster key: gossip goes on with the last keys", "error", err)
		}
		n.peers.recheck()
	}
}

// ownKeyFile is the file in a data directory with the key of a node that was given none.
const ownKeyFile = "cluster.key"

// makeOwnKey makes a key for a lone node that no other node can join yet. The node's operator gives it to this node and
// to others when they are to join: the machine's other users cannot read it.
func (n *Node) makeOwnKey() {
	if n.config.mayBeJoined() || n.config.Dev || n.config.World.FS != nil {
		return
	}
	name := filepath.Join(n.config.DataDir, ownKeyFile)
	if err := peer.MakeKeyFile(name); err != nil {
		n.config.Logger.Warn("this node has no key of its own, with which others could join it", "error", err)
		return
	}
	n.config.Logger.Info("no other node can join this one: it was given no --cluster-key; one is made already",
		"file", name)
}
