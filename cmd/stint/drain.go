package main

import (
	"fmt"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type drainCommand struct {
	Node string        `arg:"" optional:"" help:"Id of the node. Default: the one that answers."`
	Off  bool          `help:"End the draining: the node may own shards again." xor:"end"`
	Till bool          `name:"until-restart" help:"The draining ends by itself when the node has been restarted." xor:"end"`
	Wait time.Duration `help:"How long to wait until it owns nothing; 0: not at all." default:"30s"`
	asking
}

// Run starts or ends draining, and waits until a draining node owns nothing.
func (c *drainCommand) Run(s streams) error {
	if c.Node == "" && len(c.urls()) > 1 {
		return usagef("drain: say which node: --addr names several")
	}
	var response *stintv1.DrainResponse
	drain := func() (left string, err error) {
		if response, err = c.ask(); err != nil || c.Off || response.ShardsLeft == 0 {
			return "", err
		}
		return fmt.Sprintf("%s still owns %s", c.who(), plural(response.ShardsLeft, "shard")), nil
	}
	left, err := drain()
	if err != nil {
		return err
	}
	if left != "" && c.Wait > 0 {
		// A second Drain changes nothing and returns the rest.
		if left, err = await(s, c.Wait, drain); err != nil {
			return err
		}
	}
	if c.json() {
		err = printJSON(s, response)
	} else if left == "" || c.Wait <= 0 {
		fmt.Fprintln(s.out, c.verdict(left))
	}
	if err == nil && left != "" && c.Wait > 0 {
		err = fmt.Errorf("drain: after %v %s; it goes on: see stint status", c.Wait, left)
	}
	return err
}

func (c *drainCommand) ask() (*stintv1.DrainResponse, error) {
	return ask(c.remote, strings.TrimSpace("drain "+c.Node), "", c.cluster().Drain,
		&stintv1.DrainRequest{NodeId: c.Node, Off: c.Off, UntilRestart: c.Till})
}

func (c *drainCommand) who() string {
	if c.Node == "" {
		return "the node at " + c.where()
	}
	return c.Node
}

func (c *drainCommand) verdict(left string) string {
	switch {
	case c.Off:
		return c.who() + " may own shards again"
	case left != "":
		return left
	}
	return c.who() + " owns nothing: it can be stopped"
}
