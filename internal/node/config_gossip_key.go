package node

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const gossipKeyBytes = 32

// keyForAll tells an operator what to do about nodes that share no key.
const keyForAll = "give all of them the same --gossip-key FILE (on loopback one that is missing is made), or --insecure-peers " +
	"if nobody else can reach their ports, not from their machines either"

// validateGossipKey refuses plaintext gossip, on loopback too: 29 bytes from any sender, or one compressed packet, end a
// process that takes part in it (memberlist 0.6.0 allocates memory by the lengths that a packet claims). With a key, packets
// that are not sealed with it are dropped unread.
func (c *Config) validateGossipKey() error {
	if !c.mayBeJoined() || c.GossipKeyFile != "" || c.InsecurePeers || c.World.Listen != nil {
		return nil
	}
	return errors.New("gossip-key: nodes of a cluster share a key: " + keyForAll)
}

// checkGossipKey refuses a key that cannot be read. A missing one may still be created.
func (c *Config) checkGossipKey() error {
	if _, err := c.readGossipKey(); !errors.Is(err, fs.ErrNotExist) || !c.makesGossipKey() {
		return err
	}
	return nil
}

func (c *Config) makesGossipKey() bool { return isLoopback(c.GossipAddr) && isLoopback(c.PeerAddr) }

// gossipKey reads the key that all nodes share. It creates a missing one if all nodes are on this machine. It returns nil
// when there is to be none.
func (c *Config) gossipKey() ([]byte, error) {
	key, err := c.readGossipKey()
	if !errors.Is(err, fs.ErrNotExist) || !c.makesGossipKey() {
		return key, err
	}
	if err := makeGossipKey(c.GossipKeyFile); err != nil {
		return nil, fmt.Errorf("gossip-key: %w", err)
	}
	c.Logger.Info("gossip has a new key: give this file to all nodes of the cluster", "file", c.GossipKeyFile)
	return c.readGossipKey()
}

// makeGossipKey creates the file in one step: nodes that start at the same time use the same key.
func makeGossipKey(name string) error {
	var key [gossipKeyBytes]byte
	rand.Read(key[:])
	f, err := os.CreateTemp(filepath.Dir(name), ".gossip-key-") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(key[:]) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
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
