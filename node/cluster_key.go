package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/sleep"
)

// keyForAll tells an operator what to do about nodes that share no key.
const keyForAll = "give all of them the same --cluster-key FILE (on loopback one that is missing is made), " +
	"or --insecure if nobody else can reach their ports, not from their machines either"

// checkKeys refuses a key that cannot be read, and one beside --insecure. A missing one may still be created. Beside
// certificates the key is for gossip alone: the peer port believes only them.
func (c *Config) checkKeys() error {
	if c.ClusterKeyFile == "" {
		return nil
	}
	if c.InsecurePeers {
		return errors.New("cluster-key: is given together with --insecure: leave it out: " +
			"nodes with the key recognize each other")
	}
	if _, err := c.readClusterKey(slog.New(slog.DiscardHandler)); !errors.Is(err, fs.ErrNotExist) || !c.makesKey() {
		return err
	}
	return nil
}

// validateKey refuses plaintext gossip, on loopback too: 29 bytes from any sender, or one compressed packet, end a
// process that takes part in it (memberlist 0.6.0 allocates memory by the lengths that a packet claims). With a key,
// packets that are not sealed with it are dropped unread.
func (c *Config) validateKey() error {
	if !c.mayBeJoined() || c.ClusterKeyFile != "" || c.InsecurePeers {
		return nil
	}
	if c.PeerTLS != nil {
		return errors.New("cluster-key: nodes with certificates share a key for gossip: " +
			"give all of them the same --cluster-key FILE")
	}
	return errors.New("cluster-key: nodes of a cluster share a key: " + keyForAll)
}

// makesKey reports whether a key that is missing is made: all nodes are on this machine.
func (c *Config) makesKey() bool { return isLoopback(c.GossipAddr) && isLoopback(c.PeerAddr) }

// clusterKey reads the key that all nodes share. It creates a missing one if all nodes are on this machine. It returns
// nil when there is to be none.
func (c *Config) clusterKey() (*peer.KeyFile, error) {
	if c.ClusterKeyFile == "" {
		return nil, nil
	}
	key, err := c.readClusterKey(c.Logger)
	if !errors.Is(err, fs.ErrNotExist) || !c.makesKey() {
		return key, err
	}
	if err := peer.MakeKeyFile(c.ClusterKeyFile); err != nil {
		return nil, fmt.Errorf("cluster-key: %w", err)
	}
	c.Logger.Info("the cluster has a new key: give this file to all its nodes", "file", c.ClusterKeyFile)
	return c.readClusterKey(c.Logger)
}

func (c *Config) readClusterKey(logger *slog.Logger) (*peer.KeyFile, error) {
	key, err := peer.OpenKeyFile(c.ClusterKeyFile, logger)
	if err != nil {
		return nil, fmt.Errorf("cluster-key: %w", err)
	}
	return key, nil
}

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
