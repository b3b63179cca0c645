package node

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Config configures a node. The first fields are the flags of stint serve that a node takes as they are; Start fills in
// their defaults where they are 0, but for those of traces and of LogSlow, which are off then.
type Config struct {
	// DataDir is required.
	DataDir string `help:"Must be one node's own. Default: ./stint-data, or a temporary one with --dev." placeholder:"DIR" env:"STINT_DATA_DIR"`
	ClientPorts
	NodeID          string   `help:"Default: the one kept in the data directory." placeholder:"ID" env:"STINT_NODE_ID"`
	PeerAddr        string   `help:"Where other nodes connect." default:"127.0.0.1:7401" env:"STINT_PEER_ADDR"`
	GossipAddr      string   `help:"Where nodes find each other, TCP and UDP." default:"127.0.0.1:7402" env:"STINT_GOSSIP_ADDR"`
	Join            []string `help:"Nodes to join, or names that stand for several." placeholder:"HOST:PORT" env:"STINT_JOIN"`
	BootstrapExpect int      `help:"Nodes that found the cluster together. With --join and 1, the node joins and founds nothing." default:"1" env:"STINT_BOOTSTRAP_EXPECT"`
	Shards          int      `help:"Slices of the key space; read when the cluster is created." default:"1" env:"STINT_SHARDS"`
	Replicas        int      `help:"Copies of each shard, as far as there are nodes: 1, 3 or 5; read when the cluster is created." default:"3" env:"STINT_REPLICAS"`
	// PoliciesFile is "" for no policies, or those of Dev.
	PoliciesFile   string `name:"policies" help:"Policies file, installed when the cluster is created; later: stint apply." placeholder:"FILE" env:"STINT_POLICIES"`
	AdminTokenFile string `help:"File with a token that may do everything, as stint token generate draws it: the cluster's first, if it has none." placeholder:"FILE" env:"STINT_ADMIN_TOKEN_FILE"`
	Advertise      string `help:"What others dial, where the listen address will not do." placeholder:"HOST" env:"STINT_ADVERTISE"`
	Zone           string `help:"Where this node stands." env:"STINT_ZONE"`
	// ClusterKeyFile has a peer.ClusterKey; without it, see mayBeJoined.
	ClusterKeyFile string        `name:"cluster-key" help:"One secret for all nodes: lines of 32 bytes in hex or base64 (openssl rand -hex 32). The first line sends, all are accepted; it may change while nodes run. Made if it is missing, on loopback. A lone node without it cannot be joined." placeholder:"FILE" env:"STINT_CLUSTER_KEY"`
	ReplaceAfter   time.Duration `hidden:"" help:"How long a node may be silent before its replicas are rebuilt elsewhere." default:"5m" env:"STINT_REPLACE_AFTER"`
	AcceptTime     bool          `hidden:"" help:"Let shard time step more than 24 h forward from where it stopped." env:"STINT_ACCEPT_TIME"`
	TraceOTLP      string        `name:"trace-otlp" help:"Collector of traces, which speaks OTLP over HTTP, as in http://localhost:4318. Default: nothing is traced." placeholder:"URL" env:"STINT_TRACE_OTLP"`
	TraceRatio     float64       `hidden:"" help:"Share of the calls that are traced, 0 to 1, among those whose callers do not say." default:"0.01" env:"OTEL_TRACES_SAMPLER_ARG"`
	TraceDenials   float64       `hidden:"" help:"Share of those that were denied among the rest, 0 to 1." default:"0" env:"STINT_TRACE_DENIALS"`
	TestClock      bool          `hidden:"" help:"With --dev: tests move the clock by stint.test.v1.TestClock/Advance." env:"STINT_TEST_CLOCK"`
	// Dev takes policy/dev.yaml when there is no PoliciesFile, and admits no other nodes.
	Dev     bool          `help:"Try it: one node, example policies, and what to type." env:"STINT_DEV"`
	LogSlow time.Duration `hidden:"" help:"Calls that take as long are logged, as those that fail are; 0: none." default:"1s" env:"STINT_LOG_SLOW"`

	Version   string           `kong:"-"` // of this build, for display
	ClientTLS *clienttls.Files `kong:"-"` // nil: the ports of clients in plaintext
	// PeerTLS has the certificates for the peer port, which then ignores the cluster key; nil: there are none.
	PeerTLS       *peer.TLS `kong:"-"`
	InsecurePeers bool      `kong:"-"` // allows plaintext peers off loopback too
	// InsecureAPI allows the client ports off loopback without TLS too, where every client may do everything until
	// there is a token.
	InsecureAPI bool `kong:"-"`
	// SinkAllow are networks: sinks, and the keys of gates, may have addresses of them besides those of the Internet.
	SinkAllow   []netip.Prefix       `kong:"-"`
	DecisionLog *decisions.LogConfig `kong:"-"` // the node completes it; nil: decisions are not logged
	Logger      *slog.Logger         `kong:"-"`
	LogLevel    *slog.LevelVar       `kong:"-"` // of the Logger, which the API may change; nil: it may not
	World       World                `kong:"-"`

	adminToken *auth.Record // read from AdminTokenFile; nil: none was given
	testClock  *testClock   // nil: TestClock is false
}

// ClientPorts are the flags of the ports for clients, which stint serve and stint edge have.
type ClientPorts struct {
	APIAddr        string        `help:"Where clients connect." default:"127.0.0.1:7400" env:"STINT_API_ADDR"`
	GRPCAddr       string        `name:"grpc-addr" help:"A second port for gRPC alone, which costs less there. Default: none." placeholder:"HOST:PORT" env:"STINT_GRPC_ADDR"`
	RedisAddr      string        `help:"Where clients of Redis connect; default: nowhere." placeholder:"HOST:PORT" env:"STINT_REDIS_ADDR"`
	APIHosts       []string      `name:"api-hosts" help:"Names with a dot under which clients reach the API; .svc.cluster.local stands for all names that end so." placeholder:"NAME" env:"STINT_API_HOSTS"`
	RequestTimeout time.Duration `hidden:"" help:"For calls that bring no deadline." default:"5s" env:"STINT_REQUEST_TIMEOUT"`
}

func (c Config) withDefaults() Config {
	c.APIAddr = cmp.Or(c.APIAddr, "127.0.0.1:7400")
	c.PeerAddr = cmp.Or(c.PeerAddr, defaultPeerAddr)
	c.GossipAddr = cmp.Or(c.GossipAddr, defaultGossipAddr)
	c.BootstrapExpect = cmp.Or(c.BootstrapExpect, 1)
	c.Shards = cmp.Or(c.Shards, 1)
	c.Replicas = cmp.Or(c.Replicas, 3)
	c.ReplaceAfter = cmp.Or(c.ReplaceAfter, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.TestClock {
		c.testClock = &testClock{}
		c.AcceptTime = true // an epoch that is opened after a long step
	}
	if c.World.Now == nil {
		c.World.Now, c.World.Slept = time.Now, machineSlept
	}
	if c.World.Gossip == nil {
		c.World.Gossip = gossipMembership
	}
	return c
}

const defaultPeerAddr, defaultGossipAddr = "127.0.0.1:7401", "127.0.0.1:7402"

// now is the clock of everything but disks, connections and certificates. Tests may move it.
func (c *Config) now() func() time.Time {
	if c.testClock == nil {
		return c.World.Now
	}
	return c.testClock.now
}

// newestLevel is the newest level that this node's binary knows.
func (c *Config) newestLevel() shard.Level { return cmp.Or(c.World.Newest, shard.LevelNewest) }

// alone reports whether the node founds a cluster of its own.
func (c *Config) alone() bool { return c.BootstrapExpect == 1 && len(c.Join) == 0 }

// mayBeJoined reports whether the ports for other nodes are opened. A lone node opens them only when its configuration
// says how other nodes are recognized, or that it does not matter: otherwise anybody with an account on the machine
// could join it.
func (c *Config) mayBeJoined() bool {
	return !c.Dev && (!c.alone() || c.ClusterKeyFile != "" || c.InsecurePeers || c.PeerTLS != nil)
}

// maxFounders is the largest number of node ids that fits into their announcement.
const maxFounders = 7

// validate says why no node can start with a configuration. It also reads the first token from its file.
func (c *Config) validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("data-dir: must be given")
	case c.NodeID != "" && !placement.ValidID(c.NodeID):
		return fmt.Errorf("node-id: %q is not 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", c.NodeID)
	case c.Shards < 1 || c.Shards > placement.MaxShards:
		return fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, placement.MaxShards)
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("replicas: %d is not 1, 3 or 5", c.Replicas)
	case c.BootstrapExpect < 1 || c.BootstrapExpect > maxFounders:
		return fmt.Errorf("bootstrap-expect: %d is not between 1 and %d", c.BootstrapExpect, maxFounders)
	case c.Dev && !c.alone():
		return errors.New("dev: is a node alone: leave --join and --bootstrap-expect out")
	case c.TestClock && !c.Dev:
		return errors.New("test-clock: is for tests, with --dev: it refills every limit")
	}
	return inOrder(c.traceProblem, c.readAdminToken, c.checkKeys, c.validateClientAddrs, c.validatePeerAddr,
		c.validateGossipAddr, c.validateKey)
}

// inOrder takes steps up to the first that fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// validateClientAddrs refuses client ports off loopback without TLS, unless the configuration explicitly allows them:
// everybody on the way could read and change what clients send.
func (c *Config) validateClientAddrs() error {
	for i, name := range c.APIHosts {
		if problem := api.HostProblem(strings.TrimPrefix(name, ".")); problem != "" {
			return fmt.Errorf("api-hosts: %q, entry %d, %s", name, i+1, problem)
		}
	}
	for _, port := range []struct{ flag, addr string }{
		{"api-addr", c.APIAddr}, {"grpc-addr", c.GRPCAddr}, {"redis-addr", c.RedisAddr},
	} {
		if c.TestClock && !isLoopback(port.addr) {
			return fmt.Errorf("%s: %s can be reached by others, who could move the clock: "+
				"with --test-clock listen on 127.0.0.1", port.flag, port.addr)
		}
		//mutant:plaintext-need-not-be-wanted
		if c.InsecureAPI || c.ClientTLS != nil || port.addr == "" || isLoopback(port.addr) {
			continue
		}
		return fmt.Errorf("%s: %s can be reached by others, in plaintext, and everyone who reaches it may read, "+
			"spend and change every count: give it a certificate (--api-cert, --api-key), listen on 127.0.0.1, "+
			"or give --insecure if everybody on that network may do all that", port.flag, port.addr)
	}
	return nil
}

// portOf says from where a port for clients can be reached.
func (c *Config) portOf(addr string) auth.Port {
	switch {
	case isLoopback(addr):
		return auth.Loopback
	case c.InsecureAPI:
		return auth.Trusted
	}
	return auth.Public
}

// isLoopback reports whether an address can certainly be reached from this machine only. It lets malformed addresses
// pass: net.Listen reports them.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// validatePeerAddr refuses early what the peer port would refuse once the cluster is known.
func (c *Config) validatePeerAddr() error {
	if _, _, err := net.SplitHostPort(c.PeerAddr); err != nil {
		return fmt.Errorf("peer-addr: %q is not host:port", c.PeerAddr)
	}
	if isLoopback(c.PeerAddr) || c.ClusterKeyFile != "" || c.PeerTLS != nil || c.InsecurePeers || c.Dev {
		return nil
	}
	return fmt.Errorf("peer-addr: %s can be reached by others: give all nodes the same --cluster-key FILE, "+
		"or each a certificate (--peer-cert, --peer-key, --peer-ca), or --insecure if everybody on that network may "+
		"change counts", c.PeerAddr)
}

// validateGossipAddr refuses what gossip would refuse too, but as a configuration error. It leaves host names to
// gossip, which resolves them.
func (c *Config) validateGossipAddr() error {
	host, _, err := net.SplitHostPort(c.GossipAddr)
	if err != nil {
		return fmt.Errorf("gossip-addr: %q is not host:port", c.GossipAddr)
	}
	ip, err := netip.ParseAddr(host)
	if host != "" && (err != nil || ip.IsLoopback()) || c.ClusterKeyFile != "" ||
		c.InsecurePeers || c.Dev {
		return nil
	}
	return fmt.Errorf("gossip-addr: %s can be reached by others: give all nodes the same --cluster-key FILE, "+
		"beside certificates too, or --insecure if everybody on that network may pass for a node", c.GossipAddr)
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
			return nil, fmt.Errorf("%w: policies: %w", ErrConfig, err)
		}
		set, err := policy.Parse(c.PoliciesFile, text)
		if err != nil {
			return nil, fmt.Errorf("%w: policies: %w", ErrConfig, err)
		}
		return set, nil
	case c.Dev:
		return policy.Dev(), nil
	}
	return policy.NewSet(nil), nil
}
