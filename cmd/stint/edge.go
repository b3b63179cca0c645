package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stint-io/stint/node"
)

// edgeCommand has those flags of serve that are about ports for clients and about logs, with the same variables, and
// those of commands that ask a node.
type edgeCommand struct {
	Upstream       []string      `required:"" help:"Where nodes of the cluster serve clients; several, separated by commas: one that answers is asked." placeholder:"URL" env:"STINT_UPSTREAM"`
	APIAddr        string        `help:"Where clients connect." default:"127.0.0.1:7400" env:"STINT_API_ADDR"`
	GRPCAddr       string        `name:"grpc-addr" help:"A second port for gRPC alone, which costs less there. Default: none." placeholder:"HOST:PORT" env:"STINT_GRPC_ADDR"`
	RedisAddr      string        `help:"Where clients of Redis connect; default: nowhere." placeholder:"HOST:PORT" env:"STINT_REDIS_ADDR"`
	APIHosts       []string      `name:"api-hosts" help:"Names with a dot under which clients reach the API; .svc.cluster.local stands for all names that end so." placeholder:"NAME" env:"STINT_API_HOSTS"`
	APICert        string        `name:"api-cert" help:"Certificate for clients: all ports then speak TLS." placeholder:"FILE" env:"STINT_API_CERT"`
	APIKey         string        `name:"api-key" help:"Its key." placeholder:"FILE" env:"STINT_API_KEY"`
	APIClientCA    string        `name:"api-client-ca" help:"Authorities whose certificates give clients a role, by the URI stint://role/NAME." placeholder:"FILE" env:"STINT_API_CLIENT_CA"`
	Insecure       bool          `help:"Allow plaintext off loopback." env:"STINT_INSECURE"`
	RequestTimeout time.Duration `hidden:"" help:"For calls that bring no deadline." default:"5s" env:"STINT_REQUEST_TIMEOUT"`
	SinkAllow      []string      `name:"sink-allow" hidden:"" help:"Networks whose addresses the keys of gates (jwks) may have besides those of the Internet, also without TLS." placeholder:"CIDR" env:"STINT_SINK_ALLOW"`
	trust
	tokenFlag
	logFlags
	decisionLogFlags
}

// Help implements kong.HelpProvider.
func (*edgeCommand) Help() string {
	return "An edge has all ports for clients, and neither data nor a disk: it answers keys whose policies have a lease from " +
		"memory, and asks a node for everything else. It stands in another zone or region, or beside one program. Its token " +
		"needs the operation edge, and those that its clients use:\n\n" +
		"    stint token create edge-eu --expires 90d --grant ops=edge --grant 'ns=shop ops=check,read,lease' > edge.token\n" +
		"    stint edge --upstream https://stint.example.com:7400 --token-file edge.token"
}

// Run serves until a signal comes.
func (c *edgeCommand) Run(s streams) error {
	began := time.Now()
	logger, level := c.logger(raw(s.err))
	config, err := c.config(logger)
	if err != nil {
		return err
	}
	config.LogLevel = level
	config.DecisionLog = c.decisionLogFlags.config(s.out)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	boundMemory()
	trustAuthorities()
	manager := dialServiceManager(logger)
	e, err := node.StartEdge(config)
	if err != nil {
		return err
	}
	err = c.run(ctx, s, e, manager, began)
	manager.stopping()
	stop() // from here on a second signal ends the process at once
	draining, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	return errors.Join(err, e.Close(draining))
}

// run says when the edge is ready, and returns nil after a signal.
func (c *edgeCommand) run(ctx context.Context, s streams, e *node.Edge, manager serviceManager, began time.Time) error {
	started := manager.starting(e.Ready)
	err := e.AwaitReady(ctx)
	started()
	if err == nil {
		c.door().greet(c.greeting(s), e.APIAddr(), e.RedisAddr(), time.Since(began))
		manager.ready()
	} else if ctx.Err() == nil {
		return err
	}
	select {
	case err := <-e.Done():
		return err
	case <-ctx.Done():
		return nil
	}
}

// door is the part of serve that an edge has.
func (c *edgeCommand) door() *serveCommand {
	return &serveCommand{
		Config: node.Config{APIAddr: c.APIAddr, GRPCAddr: c.GRPCAddr, RedisAddr: c.RedisAddr, APIHosts: c.APIHosts,
			RequestTimeout: c.RequestTimeout, BootstrapExpect: 1, Shards: 1, Replicas: 1, ReplaceAfter: 1, PeerAddr: peerAddrDefault},
		APICert: c.APICert, APIKey: c.APIKey, APIClientCA: c.APIClientCA, Insecure: c.Insecure, SinkAllow: c.SinkAllow,
		logFlags: c.logFlags, decisionLogFlags: c.decisionLogFlags,
	}
}

// config returns the configuration of the edge, or what is wrong with the flags.
func (c *edgeCommand) config(logger *slog.Logger) (config node.EdgeConfig, err error) {
	door := c.door()
	if err := door.refuse(); err != nil {
		return config, err
	}
	nodes := remote{Addr: strings.Join(c.Upstream, ","), trust: c.trust}
	if err := nodes.validAddr(); err != nil {
		return config, usagef("--upstream: %s", strings.TrimPrefix(err.Error(), "--addr: "))
	}
	config = node.EdgeConfig{
		Config:        door.nodeConfig("", logger),
		Upstream:      nodes.urls(),
		UpstreamToken: func() (string, error) { return c.tokenTo(nodes.urls()) },
	}
	if _, err := config.UpstreamToken(); err != nil {
		return config, usageError{err}
	}
	config.UpstreamTLS, err = c.trust.config()
	return config, err
}
