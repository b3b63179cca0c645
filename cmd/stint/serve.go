package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/node"
)

// serveCommand has the flags listed in docs/operations.md. Each has an environment variable and a config key of the
// same name. The help omits rare ones (hidden).
type serveCommand struct {
	ConfigFile  string `name:"config" help:"YAML file with a key for each flag." placeholder:"FILE" env:"STINT_CONFIG"`
	node.Config `embed:""`
	clientFlags
	Insecure bool   `help:"Allow plaintext off loopback: clients, who may then do everything until there is a token, and the nodes of a cluster without --cluster-key." env:"STINT_INSECURE"`
	PeerCert string `help:"Beside --cluster-key, which is for gossip alone then: this node's certificate, with the URI stint://peer/NODE-ID." placeholder:"FILE" env:"STINT_PEER_CERT"`
	PeerKey  string `help:"Its key." placeholder:"FILE" env:"STINT_PEER_KEY"`
	PeerCA   string `name:"peer-ca" help:"Authorities whose peers are accepted." placeholder:"FILE" env:"STINT_PEER_CA"`
}

// clientFlags are the flags that serve and edge share besides node.ClientPorts: about the certificate for clients, what
// the process may connect to, and logs.
type clientFlags struct {
	APICert     string   `name:"api-cert" help:"Certificate for clients, followed by those that lead to its authority: all ports for clients then speak TLS." placeholder:"FILE" env:"STINT_API_CERT"`
	APIKey      string   `name:"api-key" help:"Its key." placeholder:"FILE" env:"STINT_API_KEY"`
	APIClientCA string   `name:"api-client-ca" help:"Authorities whose certificates give clients a role, by the URI stint://role/NAME." placeholder:"FILE" env:"STINT_API_CLIENT_CA"`
	SinkNets    []string `name:"sink-allow" hidden:"" help:"Networks whose addresses sinks, and the keys of gates (jwks), may have besides those of the Internet, also without TLS." placeholder:"CIDR" env:"STINT_SINK_ALLOW"`
	logFlags
	decisionLogFlags
}

// drainMax bounds the time in which a stopping node finishes earlier requests: twice the time limit of a call without a
// deadline.
const drainMax = 10 * time.Second

// Run serves until a signal comes or the node stops itself.
func (c *serveCommand) Run(s streams) error {
	if err := c.refuse(); err != nil {
		return err
	}
	// Keys are e-mail addresses and phone numbers, so only the owner may read the data, whichever code writes it.
	syscall.Umask(0o077)
	dataDir, remove, err := c.dataDir()
	if err != nil {
		return err
	}
	defer remove()
	return c.serve(s, func(ctx context.Context, config node.Config) (served, error) {
		config.DataDir = dataDir
		return node.Start(ctx, config)
	})
}

// served is a node or an edge.
type served interface {
	Ready() error                     // what it waits for; nil: it is ready
	AwaitReady(context.Context) error // returns early with the reason why it must stop
	APIAddr() string
	RedisAddr() string           // "": it does not serve the Redis protocol
	Done() <-chan error          // yields the reason why it must stop
	Close(context.Context) error // the context bounds the wait for earlier requests
}

// serve starts a server and serves until a signal comes or the server stops itself. If start returns an error, nothing
// is left to close.
func (c *serveCommand) serve(s streams, start func(context.Context, node.Config) (served, error)) error {
	began := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if p, is := raw(s.out).(*printed); is {
		s.out = printable{p.Writer} // who reads the decision log may leave, and that is no failure
	}
	boundMemory()
	trustAuthorities()
	logger, level := c.logger(raw(s.err))
	config := c.nodeConfig(logger)
	config.LogLevel, config.DecisionLog = level, c.decisionLogFlags.config(s.out)
	manager := dialServiceManager(logger)
	started := manager.starting(func() error { return nil })
	n, err := startUnless(ctx, func() (served, error) { return start(ctx, config) })
	started()
	if err != nil {
		return err
	}
	err = c.run(ctx, s, n, manager, began)
	if _, is := n.(*node.Node); is && err != nil && !errors.Is(err, node.ErrRemoved) {
		return err
	}
	manager.stopping()
	stop() // from here on a second signal ends the process at once
	draining, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	return errors.Join(err, n.Close(draining))
}

// boundMemory makes Go's garbage collector work harder before the process has used up the memory of its container,
// unit or machine. GOMEMLIMIT takes precedence.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(node.Memory() / 10 * 9)
	}
}

// startUnless starts a server. It fails if a signal came and the start did not end soon: a file of the configuration
// can make it wait for ever, such as a pipe without a writer. The start then goes on, until the process ends.
func startUnless(ctx context.Context, start func() (served, error)) (served, error) {
	var n served
	var err error
	started := make(chan struct{})
	go func() {
		defer close(started)
		n, err = start()
	}()
	select {
	case <-started:
		return n, err
	case <-ctx.Done():
	}
	select {
	case <-started:
		return n, err
	case <-time.After(startMost):
		return nil, errors.New("a signal came before the start was over: is a file of the configuration a pipe?")
	}
}

// startMost is how long a start that a signal interrupts may go on.
const startMost = 2 * time.Second

// run greets when the server is ready, and returns nil after a signal. An error is the reason why the server must stop.
// After a disk that cannot be trusted nothing of a node is closed, because the process would wait for that disk. A
// removed node stops in order: it can still pass earlier requests on.
func (c *serveCommand) run(ctx context.Context, s streams, n served, manager serviceManager, began time.Time) error {
	started := manager.starting(n.Ready)
	err := n.AwaitReady(ctx)
	started()
	if err == nil {
		c.greet(c.greeting(s), n.APIAddr(), n.RedisAddr(), time.Since(began))
		manager.ready()
	} else if ctx.Err() == nil {
		return err
	}
	select {
	case err := <-n.Done():
		return err
	case <-ctx.Done():
		return nil
	}
}

// refuse rejects invalid flags before anything starts.
func (c *serveCommand) refuse() error {
	const tooFew = "must be at least 1"
	secure := c.APICert != "" || c.APIKey != "" || c.APIClientCA != ""
	certificates := c.PeerCert != "" || c.PeerKey != "" || c.PeerCA != ""
	for _, flag := range []struct {
		set           bool
		name, problem string
	}{
		{c.BootstrapExpect < 1, "bootstrap-expect", tooFew},
		{secure && c.APICert == "", "api-cert", "is needed beside --api-key and --api-client-ca"},
		{secure && c.APIKey == "", "api-key", "is needed beside --api-cert"},
		{certificates && c.PeerCert == "", "peer-cert", "is needed beside --peer-key and --peer-ca"},
		{certificates && c.PeerKey == "", "peer-key", "is needed beside --peer-cert and --peer-ca"},
		{certificates && c.PeerCA == "", "peer-ca", "is needed beside --peer-cert and --peer-key"},
		{c.Shards < 1, "shards", tooFew},
		{c.Replicas < 1, "replicas", tooFew},
		{c.TestClock && (!c.Dev || c.DataDir != ""), "test-clock",
			"is for tests, with --dev and without --data-dir: it refills every limit"},
		{c.ReplaceAfter <= 0, "replace-after", "must be more than 0, as in 5m"},
		{c.RequestTimeout <= 0, "request-timeout", "must be more than 0, as in 5s"},
	} {
		if flag.set {
			return usagef("--%s: %s", flag.name, flag.problem)
		}
	}
	_, err := c.sinkAllow()
	return err
}

// sinkAllow reads the networks that sinks may be in. An address alone stands for itself.
func (c *serveCommand) sinkAllow() (allow []netip.Prefix, err error) {
	for _, text := range c.SinkNets {
		p, err := netip.ParsePrefix(text)
		if addr, alone := netip.ParseAddr(text); alone == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() || p != p.Masked() {
			return nil, usagef("--sink-allow: %q is neither an address nor a network such as 10.1.0.0/16 "+
				"or fd00:1::/32", text)
		}
		allow = append(allow, p)
	}
	return allow, nil
}

// dataDir returns the data directory, and a function to call when the process ends.
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

// peerAddrDefault is the default of --peer-addr.
const peerAddrDefault = "127.0.0.1:7401"

// insecurePeers reports whether nodes need not authenticate. --insecure alone does not open a lone node to others: its
// operator announces other nodes by --peer-addr, --join or --bootstrap-expect.
func (c *serveCommand) insecurePeers() bool {
	isToBeJoined := len(c.Join) > 0 || c.BootstrapExpect > 1 || c.PeerAddr != peerAddrDefault
	return c.Insecure && c.ClusterKeyFile == "" && c.PeerCert == "" && isToBeJoined
}

// triesImage reports whether a user is trying the image: its environment makes the node listen for every client that
// reaches the container, which are those to which its user publishes the port. An address on the command line is
// deliberate, and --dev lifts nothing there.
func (c *serveCommand) triesImage() bool { return c.Dev && c.APIAddr == os.Getenv("STINT_API_ADDR") }

// nodeConfig returns the configuration of a node, without its data directory.
func (c *serveCommand) nodeConfig(logger *slog.Logger) node.Config {
	config := c.Config
	config.Version, config.Logger, config.World.Now = version(), logger, now
	config.SinkAllow, _ = c.sinkAllow() // refuse has validated it
	config.InsecureAPI, config.InsecurePeers = c.Insecure || c.triesImage(), c.insecurePeers()
	if c.APICert != "" {
		config.ClientTLS = &clienttls.Files{Cert: c.APICert, Key: c.APIKey, CAs: c.APIClientCA}
	}
	if c.PeerCert != "" {
		config.PeerTLS = &peer.TLS{CertFile: c.PeerCert, KeyFile: c.PeerKey, CAFile: c.PeerCA}
	}
	return config
}
