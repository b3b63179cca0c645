package node

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
)

// Config is everything a node needs to know. Zero values are documented; Start fills the defaults in.
type Config struct {
	DataDir    string // must be one node's own; required
	NodeID     string // "": the one kept in the data dir, or a new one
	APIAddr    string // "": 127.0.0.1:7400
	GRPCAddr   string // of a second port, for gRPC alone; "": none
	PeerAddr   string // "": 127.0.0.1:7401
	GossipAddr string // "": 127.0.0.1:7402
	RedisAddr  string // "": nobody speaks the Redis protocol here
	Advertise  string // host that others dial; "": that of the addresses above
	Zone       string
	Version    string // of this build, to be shown

	Join            []string // seeds, host:port
	BootstrapExpect int      // nodes that found a cluster together; 0: 1. With Join and 1 the node joins and founds nothing

	Shards       int           // 0: 4; read when the cluster is created
	Replicas     int           // 0: 3; likewise
	PoliciesFile string        // likewise; "": no policies, or those of Dev
	ReplaceAfter time.Duration // 0: 5 min; how long a node may be silent before its replicas are made anew elsewhere

	PeerTLS       *cluster.PeerTLS // nil: peers in the clear
	GossipKeyFile string           // 32 bytes, raw, in hex or in base64; "": gossip in the clear
	InsecurePeers bool             // in the clear also off loopback

	RequestTimeout time.Duration // 0: 5 s; for calls that bring no deadline
	Dev            bool          // the policies of DESIGN.md section 7 when there is no PoliciesFile, and no other nodes
	AcceptTime     bool          // lets shard time step more than 24 h past the last stamp
	Logger         *slog.Logger
	World          World
}

// World is what a simulation puts in the place of the machine. Its zero value is the machine.
type World struct {
	Now    func() time.Time                                         // the clock, with its monotonic reading
	FS     raftfsm.FS                                               // under the log
	Listen func(addr string) (net.Listener, error)                  // the peer port
	Dial   func(ctx context.Context, addr string) (net.Conn, error) // other peer ports
	Gossip func(cluster.GossipConfig) (Membership, error)           // instead of cluster.StartGossip
	NoAPI  bool                                                     // requests come by Node.Decide only
}

// Membership is what a node asks of gossip. cluster.Gossip implements it.
type Membership interface {
	Members() []cluster.Member
	SetCluster(id string) error
	Announce(f cluster.Formation) error
	Stop()
	ownerAnnouncer
}

func (c Config) withDefaults() Config {
	setDefault(&c.APIAddr, "127.0.0.1:7400")
	setDefault(&c.PeerAddr, defaultPeerAddr)
	setDefault(&c.GossipAddr, defaultGossipAddr)
	setDefault(&c.BootstrapExpect, 1)
	setDefault(&c.Shards, 4)
	setDefault(&c.Replicas, 3)
	setDefault(&c.ReplaceAfter, 5*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.World.Now == nil {
		c.World.Now = time.Now
	}
	if c.World.Gossip == nil {
		c.World.Gossip = startGossip
	}
	return c
}

// startGossip is cluster.StartGossip; on an error there is no Membership, not one that holds a nil.
func startGossip(config cluster.GossipConfig) (Membership, error) {
	g, err := cluster.StartGossip(config)
	if err != nil {
		return nil, err
	}
	return g, nil
}

const defaultPeerAddr, defaultGossipAddr = "127.0.0.1:7401", "127.0.0.1:7402"

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// alone tells whether the node founds a cluster of its own.
func (c *Config) alone() bool { return c.BootstrapExpect == 1 && len(c.Join) == 0 }

// maxShards is as many groups as a node is known to carry (SEMANTICS R13).
const maxShards = 256

// maxFounders is as many node ids as their announcement has room for.
const maxFounders = 7

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
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("replicas: %d is not 1, 3 or 5", c.Replicas)
	case c.BootstrapExpect < 1 || c.BootstrapExpect > maxFounders:
		return fmt.Errorf("bootstrap-expect: %d is not between 1 and %d", c.BootstrapExpect, maxFounders)
	case c.Dev && !c.alone():
		return errors.New("dev: is a node alone: leave --join and --bootstrap-expect out")
	}
	if _, err := c.gossipKey(); err != nil {
		return err
	}
	if err := c.validatePeerAddr(); err != nil {
		return err
	}
	return c.validateGossipAddr()
}

// validatePeerAddr refuses early what the peer port would refuse once the cluster is known.
func (c *Config) validatePeerAddr() error {
	host, _, err := net.SplitHostPort(c.PeerAddr)
	if err != nil {
		return fmt.Errorf("peer-addr: %q is not host:port", c.PeerAddr)
	}
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() || c.PeerTLS != nil || c.InsecurePeers || c.Dev ||
		c.World.Listen != nil {
		return nil
	}
	return fmt.Errorf("peer-addr: %s can be reached by others: give it a certificate (--peer-cert, --peer-key, --peer-ca), "+
		"or --insecure-peers if everybody on that network may change counts", c.PeerAddr)
}

// validateGossipAddr refuses what gossip would refuse as well, but not as an error of the configuration. What a name
// stands for is for gossip to find out.
func (c *Config) validateGossipAddr() error {
	host, _, err := net.SplitHostPort(c.GossipAddr)
	if err != nil {
		return fmt.Errorf("gossip-addr: %q is not host:port", c.GossipAddr)
	}
	ip, err := netip.ParseAddr(host)
	if host != "" && (err != nil || ip.IsLoopback()) || c.GossipKeyFile != "" || c.InsecurePeers || c.Dev ||
		c.World.Listen != nil {
		return nil
	}
	return fmt.Errorf("gossip-addr: %s can be reached by others: give all nodes a key (--gossip-key), or "+
		"--insecure-peers if everybody on that network may pass for a node", c.GossipAddr)
}

// gossipKey reads the key that all nodes share; nil when there is none.
func (c *Config) gossipKey() ([]byte, error) {
	if c.GossipKeyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.GossipKeyFile)
	if err != nil {
		return nil, fmt.Errorf("gossip-key: %w", err)
	}
	const size = 32
	if len(text) == size {
		return text, nil
	}
	trimmed := strings.TrimSpace(string(text))
	if key, err := hex.DecodeString(trimmed); err == nil && len(key) == size {
		return key, nil
	}
	if key, err := base64.StdEncoding.DecodeString(trimmed); err == nil && len(key) == size {
		return key, nil
	}
	return nil, fmt.Errorf("gossip-key: %s must hold %d bytes: raw, in hex (openssl rand -hex 32) or in base64",
		c.GossipKeyFile, size)
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
	return policy.NewSet(nil), nil
}
