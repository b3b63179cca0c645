package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-io/stint/node"
)

// serveCommand's flags are DESIGN.md's section 6. Each has an environment variable and a config key of the same name.
type serveCommand struct {
	Config          string        `help:"YAML file with a key for each flag." placeholder:"FILE" env:"STINT_CONFIG"`
	DataDir         string        `help:"Must be one node's own. Default: ./stint-data, or a temporary one with --dev." placeholder:"DIR" env:"STINT_DATA_DIR"`
	NodeID          string        `help:"Default: the one kept in the data directory." placeholder:"ID" env:"STINT_NODE_ID"`
	APIAddr         string        `help:"Where clients connect." default:"127.0.0.1:7400" env:"STINT_API_ADDR"`
	PeerAddr        string        `help:"Where other nodes connect." default:"127.0.0.1:7401" env:"STINT_PEER_ADDR"`
	GossipAddr      string        `help:"Where nodes find each other, TCP and UDP." default:"127.0.0.1:7402" env:"STINT_GOSSIP_ADDR"`
	Join            []string      `help:"Nodes to join: not built yet." placeholder:"HOST:PORT" env:"STINT_JOIN"`
	BootstrapExpect int           `help:"Nodes that found the cluster: more than 1 is not built yet." default:"1" env:"STINT_BOOTSTRAP_EXPECT"`
	Shards          int           `help:"Slices of the key space; read when the data directory is created." default:"4" env:"STINT_SHARDS"`
	Replicas        int           `help:"Copies of each shard, as far as there are nodes." default:"3" env:"STINT_REPLICAS"`
	Policies        string        `help:"Policies file." placeholder:"FILE" env:"STINT_POLICIES"`
	RedisAddr       string        `help:"Redis protocol: not built yet." env:"STINT_REDIS_ADDR"`
	RequestTimeout  time.Duration `help:"For calls that bring no deadline." default:"5s" env:"STINT_REQUEST_TIMEOUT"`
	Advertise       string        `help:"What others dial, where the listen address will not do." placeholder:"HOST" env:"STINT_ADVERTISE"`
	Zone            string        `help:"Where this node stands." env:"STINT_ZONE"`
	PeerCert        string        `help:"Not built yet." placeholder:"FILE" env:"STINT_PEER_CERT"`
	PeerKey         string        `help:"Not built yet." placeholder:"FILE" env:"STINT_PEER_KEY"`
	PeerCA          string        `name:"peer-ca" help:"Not built yet." placeholder:"FILE" env:"STINT_PEER_CA"`
	GossipKey       string        `help:"Not built yet." placeholder:"FILE" env:"STINT_GOSSIP_KEY"`
	InsecurePeers   bool          `help:"Not built yet." env:"STINT_INSECURE_PEERS"`
	AcceptTime      bool          `help:"Let shard time step more than 24 h forward from where it stopped." env:"STINT_ACCEPT_TIME"`
	Dev             bool          `help:"Try it: one node, example policies, and what to type." env:"STINT_DEV"`
}

// drainMax is how long a node may take to finish what it was asked before it was told to stop: twice as long as a call
// may take that brings no deadline.
const drainMax = 10 * time.Second

// Run serves until a signal, or until the node stops itself.
func (c *serveCommand) Run(s streams) error {
	if err := c.refuseUnbuilt(); err != nil {
		return err
	}
	began := time.Now()
	syscall.Umask(0o077) // keys are e-mail addresses and phone numbers: the data is its owner's alone, whoever writes it
	dataDir, remove, err := c.dataDir()
	if err != nil {
		return err
	}
	defer remove()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(s.err, nil))
	if flags := c.idleFlags(); len(flags) > 0 {
		logger.Info("a node alone has no use for", "flags", strings.Join(flags, " "))
	}
	n, err := node.Start(ctx, c.nodeConfig(dataDir, logger))
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		return err
	}
	c.greet(s.out, n.APIAddr(), time.Since(began))
	select {
	case err := <-n.Done():
		return err
	case <-ctx.Done():
	}
	stop() // from here on a second signal ends the process at once
	draining, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	return n.Close(draining)
}

// refuseUnbuilt stops before anything starts that would not do what its flags say.
func (c *serveCommand) refuseUnbuilt() error {
	const unbuilt, tooFew = "clusters are not built yet", "must be at least 1"
	for _, flag := range []struct {
		set           bool
		name, problem string
	}{
		{len(c.Join) > 0, "join", unbuilt + "; one node serves alone"},
		{c.BootstrapExpect > 1, "bootstrap-expect", unbuilt + "; one node serves alone, so leave it at 1"},
		{c.RedisAddr != "", "redis-addr", "the Redis protocol is not built yet; use --api-addr"},
		{c.PeerCert != "", "peer-cert", unbuilt},
		{c.PeerKey != "", "peer-key", unbuilt},
		{c.PeerCA != "", "peer-ca", unbuilt},
		{c.GossipKey != "", "gossip-key", unbuilt},
		{c.InsecurePeers, "insecure-peers", unbuilt},
		{c.BootstrapExpect < 1, "bootstrap-expect", tooFew},
		{c.Shards < 1, "shards", tooFew},
		{c.Replicas < 1, "replicas", tooFew},
		{c.RequestTimeout <= 0, "request-timeout", "must be more than 0, as in 5s"},
	} {
		if flag.set {
			return usagef("--%s: %s", flag.name, flag.problem)
		}
	}
	return nil
}

// idleFlags names the flags that were set and that only a node with others has a use for.
func (c *serveCommand) idleFlags() (names []string) {
	for _, flag := range []struct{ name, value, unset string }{
		{"--peer-addr", c.PeerAddr, "127.0.0.1:7401"},
		{"--gossip-addr", c.GossipAddr, "127.0.0.1:7402"},
		{"--advertise", c.Advertise, ""},
		{"--zone", c.Zone, ""},
		{"--replicas", strconv.Itoa(c.Replicas), "3"},
	} {
		if flag.value != flag.unset {
			names = append(names, flag.name)
		}
	}
	return names
}

// dataDir answers where to keep the data, and what to do with it when the process ends.
func (c *serveCommand) dataDir() (dir string, remove func(), err error) {
	switch {
	case c.DataDir != "":
		return c.DataDir, func() {}, nil
	case !c.Dev:
		return "stint-data", func() {}, nil
	}
	dir, err = os.MkdirTemp("", "stint-dev-")
	if err != nil {
		return "", nil, fmt.Errorf("making a temporary data directory: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

func (c *serveCommand) nodeConfig(dataDir string, logger *slog.Logger) node.Config {
	return node.Config{DataDir: dataDir, NodeID: c.NodeID, APIAddr: c.APIAddr, Shards: c.Shards,
		PoliciesFile: c.Policies, RequestTimeout: c.RequestTimeout, Dev: c.Dev, AcceptTime: c.AcceptTime, Logger: logger}
}
