package node

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/stint-io/stint/cluster/peer"
)

const gossipKeyBytes = 32

// checkGossipKey refuses a key that cannot be read. A missing one may still be created.
func (c *Config) checkGossipKey() error {
	if _, err := c.readGossipKey(); !errors.Is(err, fs.ErrNotExist) || !c.makesKey() {
		return err
	}
	return nil
}

// gossipKey reads the key that all nodes share. It creates a missing one if all nodes are on this machine. It returns nil
// when there is to be none.
func (c *Config) gossipKey() ([]byte, error) {
	key, err := c.readGossipKey()
	if !errors.Is(err, fs.ErrNotExist) || !c.makesKey() {
		return key, err
	}
	if err := peer.MakeKeyFile(c.GossipKeyFile); err != nil {
		return nil, fmt.Errorf("gossip-key: %w", err)
	}
	c.Logger.Info("gossip has a new key: give this file to all nodes of the cluster", "file", c.GossipKeyFile)
	return c.readGossipKey()
}

func (c *Config) readGossipKey() ([]byte, error) {
	if c.GossipKeyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.GossipKeyFile)
	if err != nil {
		return nil, fmt.Errorf("gossip-key: %w", err)
	}
	if len(text) == gossipKeyBytes {
		return text, nil
	}
	trimmed := strings.TrimSpace(string(text))
	if key, err := hex.DecodeString(trimmed); err == nil && len(key) == gossipKeyBytes {
		return key, nil
	}
	if key, err := base64.StdEncoding.DecodeString(trimmed); err == nil && len(key) == gossipKeyBytes {
		return key, nil
	}
	return nil, fmt.Errorf("gossip-key: %s must hold %d bytes: raw, in hex (openssl rand -hex 32) or in base64",
		c.GossipKeyFile, gossipKeyBytes)
}
