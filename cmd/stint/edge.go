package main

import (
	"context"
	"strings"

	"github.com/stint-io/stint/node"
)

// edgeCommand has those flags of serve that are about ports for clients and about logs, and those of commands that ask
// a node.
type edgeCommand struct {
	Upstream []string `required:"" help:"Where nodes of the cluster serve clients; several, separated by commas: one that answers is asked." placeholder:"URL" env:"STINT_UPSTREAM"`
	node.ClientPorts
	clientFlags
	Insecure bool `help:"Allow plaintext off loopback." env:"STINT_INSECURE"`
	trust
	tokenFlag
}

// Run serves until a signal comes. The flags that only a node has get values that pass refuse and open nothing; an edge
// uses none of them.
func (c *edgeCommand) Run(s streams) error {
	serve := &serveCommand{Config: node.Config{ClientPorts: c.ClientPorts, BootstrapExpect: 1, Shards: 1, Replicas: 1,
		ReplaceAfter: 1, PeerAddr: peerAddrDefault}, clientFlags: c.clientFlags, Insecure: c.Insecure}
	if err := serve.refuse(); err != nil {
		return err
	}
	return serve.serve(s, func(_ context.Context, base node.Config) (served, error) {
		config, err := c.config(base)
		if err != nil {
			return nil, err
		}
		return node.StartEdge(config)
	})
}

// config returns the configuration of the edge, or what is wrong with the flags.
func (c *edgeCommand) config(base node.Config) (config node.EdgeConfig, err error) {
	nodes := remote{Addr: strings.Join(c.Upstream, ","), trust: c.trust}
	if err := nodes.validAddr(); err != nil {
		return config, usagef("--upstream: %s", strings.TrimPrefix(err.Error(), "--addr: "))
	}
	config = node.EdgeConfig{
		Config:        base,
		Upstream:      nodes.urls(),
		UpstreamToken: func() (string, error) { return c.tokenTo(nodes.urls()) },
		SecretFiles:   [][2]string{{"token-file", c.TokenFile}, {"cert-key", c.CertKey}},
	}
	if _, err := config.UpstreamToken(); err != nil {
		return config, usageError{err}
	}
	config.UpstreamTLS, err = c.trust.config()
	return config, err
}
