package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/offline/doctor"
	"github.com/stint-io/stint/policy"
)

type doctorCommand struct {
	Namespace string        `help:"Where the test key is counted. Default: the server's."`
	Through   string        `help:"A page behind your proxy, on which a gate counts addresses: it is asked twice with a forged X-Forwarded-For." placeholder:"URL"`
	BackupAge time.Duration `help:"The newest backup may be this old." default:"24h"`
	Strict    bool          `help:"Exit code 1 also for what is only worth a look, or not known."`
	Wait      time.Duration `help:"How long all of it may take." default:"60s"`
	asking
}

// Run examines the cluster, and returns an error if something is wrong.
func (c *doctorCommand) Run(s streams) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Wait)
	defer cancel()
	status, err := c.status("doctor")
	if err != nil {
		return err
	}
	config := c.config(status)
	if len(config.Nodes) == 0 {
		return errors.New("doctor: no node of the cluster answers: name one that does with --addr")
	}
	findings := doctor.Look(ctx, config, status)
	if c.json() {
		err = printJSON(s, map[string]any{"findings": findings})
	} else {
		doctor.Print(s.out, findings)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range findings {
		if f.State == doctor.Wrong || c.Strict && f.State != doctor.Fine {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("doctor: not well: %s", plural(wrong, "finding"))
	}
	return nil
}

func (c *doctorCommand) config(status *stintv1.StatusResponse) doctor.Config {
	stranger := c.trust
	stranger.Cert, stranger.CertKey = "", ""
	return doctor.Config{
		Namespace: c.Namespace,
		Through:   c.Through,
		BackupAge: c.BackupAge,
		Timeout:   c.Timeout,
		Nodes:     c.nodes(status),
		Limits:    c.limits(),
		Policies: func(ctx context.Context) (*policy.Set, error) {
			answer, err := c.policies().List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
			if err != nil {
				return nil, err
			}
			return setOf(answer.Msg.Policies, answer.Msg.Rules)
		},
		Token:    func(address string) (string, error) { return c.tokenTo([]string{address}) },
		Bare:     c.transport(),
		Stranger: leavesTime{stranger.transport()},
		Why:      func(err error) string { return cmp.Or(tlsProblem(err), innermost(err).Error()) },
	}
}

// nodes returns the nodes to ask: those of --addr if there are several, else all that the cluster reports as answering.
func (c *doctorCommand) nodes(status *stintv1.StatusResponse) (nodes []doctor.Node) {
	urls := c.urls()
	if len(urls) > 1 && c.DataDir == "" {
		for _, url := range urls {
			nodes = append(nodes, c.node(url, url))
		}
		return nodes
	}
	for _, n := range c.answering(status) {
		nodes = append(nodes, c.node(n.id, n.url))
	}
	switch {
	case c.DataDir != "" && len(nodes) == 1: // a lone node is asked at its socket
		nodes[0].Limits, nodes[0].Sinks = c.limits(), c.sinks()
	case c.DataDir == "" && len(nodes) < 2: // one node is asked as it was named
		nodes = []doctor.Node{c.node(urls[0], urls[0])}
	}
	return nodes
}

// node returns a node to be asked at an address.
func (c *doctorCommand) node(name, address string) doctor.Node {
	r := c.remote
	r.Addr, r.DataDir = address, ""
	u, err := url.Parse(address) // a node's address, or a validated flag
	return doctor.Node{Name: name, URL: address, Here: err == nil && onThisMachine(u), Limits: r.limits(),
		Sinks: r.sinks()}
}
