package main

import (
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type getCommand struct {
	target
	StaleOK bool   `name:"stale-ok" help:"The node that is asked may answer from its own replica, which may be behind; it says by how much."`
	Tier    string `help:"Default: the key's own, else the policy's."`
	output
	remote
}

// Run prints the state of a key.
func (c *getCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.limits(ctx).Get(ctx, connect.NewRequest(&stintv1.GetRequest{Namespace: c.Namespace,
		StaleOk: c.StaleOK, Entries: []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Tier: c.Tier}}}))
	if err != nil {
		return c.explain(ctx, "get "+c.target.String(), err, false)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	if behind := answer.Msg.StaleBy; behind != nil {
		fmt.Fprintf(s.out, "as of %s, a replica's, %s old at most\n", instant(answer.Msg.At),
			api.DurationText(behind.AsDuration().Round(time.Millisecond)))
	}
	return printLimits(s, answer.Msg.Limits, answer.Msg.At)
}
