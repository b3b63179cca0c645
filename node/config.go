package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/stint-io/stint/policy"
)

// Config is everything a node needs to know. Zero values are documented; Start fills the defaults in.
type Config struct {
	DataDir        string        // must be one node's own; required
	NodeID         string        // "": the one kept in the data dir, or a new one
	APIAddr        string        // "": 127.0.0.1:7400
	Shards         int           // 0: 4; read when the data dir is created
	PoliciesFile   string        // "": no policies, or those of Dev
	RequestTimeout time.Duration // 0: 5 s; for calls that bring no deadline
	Dev            bool          // the policies of DESIGN.md section 7 when there is no PoliciesFile
	AcceptTime     bool          // lets shard time step more than 24 h past the last stamp
	Logger         *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.APIAddr == "" {
		c.APIAddr = "127.0.0.1:7400"
	}
	if c.Shards == 0 {
		c.Shards = 4
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// maxShards is as many groups as a node is known to carry (SEMANTICS R13).
const maxShards = 256

// nodeID is what the names of replicas, gossip and certificates can carry. An id is kept for ever.
var nodeID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c *Config) validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("data-dir: must be given")
	case c.NodeID != "" && !nodeID.MatchString(c.NodeID):
		return fmt.Errorf("node-id: %q is not 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", c.NodeID)
	case c.Shards < 1 || c.Shards > maxShards:
		return fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, maxShards)
	}
	return nil
}

// readPolicies reads the policies file, or takes the example policies. Their warnings go to the log.
func (c *Config) readPolicies() (*policy.Set, error) {
	set, err := c.parsePolicies()
	if err != nil {
		return nil, err
	}
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		for _, warning := range p.Warnings() {
			c.Logger.Warn("policy", "policy", name, "warning", warning)
		}
	}
	return set, nil
}

func (c *Config) parsePolicies() (*policy.Set, error) {
	switch {
	case c.PoliciesFile != "":
		text, err := os.ReadFile(c.PoliciesFile)
		if err != nil {
			return nil, fmt.Errorf("policies: %w", err)
		}
		return policy.Parse(c.PoliciesFile, text)
	case c.Dev:
		return policy.Dev(), nil
	}
	c.Logger.Warn("there are no policies: every check will be answered not_found; give --policies FILE")
	return policy.NewSet(nil), nil
}
