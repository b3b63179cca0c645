package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Config configures a Gossip. Functions and Logger are required.
type Config struct {
	// Member is this node, its id of at most 64 bytes and its Formation of the same Cluster. Addr gives the GossipAddr.
	Member
	Addr string // host:port to listen on, TCP and UDP; port 0 for any free port
	// Advertise is the host that others dial for all three addresses; "" for the listen address, or this machine's for
	// a wildcard.
	Advertise string
	Seeds     []string // host:port; a name with several addresses is several seeds; our own address is skipped
	// Keys are of 32 bytes each, shared by all nodes: the first one sends, all are accepted; none disables encryption.
	Keys     [][]byte
	Insecure bool // allows gossip without a key off loopback

	Registered func() []string // gossip addresses of the nodes of the cluster, host:port; nil if none are known
	OnChange   func()          // called after members changed, from one goroutine; must not call Stop
	Streams    int             // maximum number of concurrent incoming streams
	OnRefused  func(string)    // called with the reason for each stream refused for lack of room
	Hints      *Hints          // received hints are merged into it; required
	Resolver   Resolver        // nil means net.DefaultResolver
	Logger     *slog.Logger

	pace    pace    // zero means lanPace
	network network // nil means that of the machine
}

// pace holds the intervals of gossip.
type pace struct {
	probe  time.Duration // between probes of one node each
	gossip time.Duration // between packets with news
	alone  time.Duration // between attempts to find any node
	rejoin time.Duration // between searches for missing nodes
	stream time.Duration // for a full exchange over TCP
}

// lanPace detects a dead node of three in 2 to 4 seconds, at four packets per second and node.
var lanPace = pace{500 * time.Millisecond, 200 * time.Millisecond, time.Second, 10 * time.Second, 3 * time.Second}

func (c Config) withDefaults() Config {
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.network == nil {
		c.network = machineNet{}
	}
	if c.pace == (pace{}) {
		c.pace = lanPace
	}
	return c
}

func (c *Config) validate() error {
	switch {
	case c.Hints == nil:
		return errors.New("gossip: Hints must be given")
	case slices.ContainsFunc(c.Keys, func(key []byte) bool { return len(key) != gossipKeyBytes }):
		return fmt.Errorf("gossip: a key has not %d bytes", gossipKeyBytes)
	}
	if err := checkNode(c.Node); err != nil {
		return err
	}
	return checkSeeds(c.Seeds)
}

func checkNode(node string) error {
	if node == "" || len(node) > nodeBytesMax || !isText(node) {
		return fmt.Errorf("gossip: node id %.80q is empty, longer than %d bytes, or not plain text", node, nodeBytesMax)
	}
	return nil
}

// self returns what this node announces of itself, or an error if it cannot be encoded.
func (c *Config) self(a *gossipAddress) (self Member, err error) {
	self = c.Member
	if self.PeerAddr, err = a.reachable(c.PeerAddr); err != nil {
		return Member{}, fmt.Errorf("peer-addr: %w", err)
	}
	if self.APIAddr, err = a.reachable(c.APIAddr); err != nil {
		return Member{}, fmt.Errorf("api-addr: %w", err)
	}
	_, err = self.encode()
	return self, err
}

// memberlist returns the library's LAN settings, made faster for clusters of a few nodes.
func (c *Config) memberlist(callbacks *callbacks) *memberlist.Config {
	settings := memberlist.DefaultLANConfig()
	settings.Name = c.Node
	// The label keeps out other programs that use memberlist. It cannot be the cluster's id: it is fixed when the node
	// starts, and a node without a cluster could not talk to the cluster that it is to join.
	settings.Label = "stint"
	settings.ProbeInterval, settings.ProbeTimeout = c.pace.probe, c.pace.probe/2
	settings.GossipInterval = c.pace.gossip
	settings.PushPullInterval = c.pace.rejoin
	settings.SuspicionMaxTimeoutMult = 2 // a wrong suspicion costs only a detour, so early is better than certain
	settings.TCPTimeout = c.pace.stream
	settings.DeadNodeReclaimTime = reclaimWait
	settings.EnableCompression = false // packets are small, and compression costs more CPU than all the rest
	settings.Delegate, settings.Events, settings.Alive = callbacks, callbacks, callbacks
	settings.Merge, settings.Conflict = callbacks, callbacks
	return settings
}

// keyring returns the keys for memberlist, or nil if there are none.
func (c *Config) keyring() (*memberlist.Keyring, error) {
	if len(c.Keys) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(c.Keys, c.Keys[0])
	if err != nil {
		return nil, fmt.Errorf("gossip: key: %w", err)
	}
	return ring, nil
}
