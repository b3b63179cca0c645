package main

import (
	"fmt"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type explainCommand struct {
	target
	Cost uint64 `help:"Units that would be spent." default:"1"`
	Tier string `help:"Default: the key's own, else the policy's."`
	output
	remote
}

// Help implements kong.HelpProvider.
func (*explainCommand) Help() string {
	return "Nothing is counted, and the exit code does not tell the decision: stint check --peek does.\n\n" +
		"    stint explain login user:42"
}

// Run describes in words the decision that would be made now, and its reason.
func (c *explainCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.limits(ctx).Check(ctx, connect.NewRequest(&stintv1.CheckRequest{Namespace: c.Namespace,
		Mode: stintv1.Mode_MODE_PEEK, Explain: true,
		Entries: []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Cost: &c.Cost, Tier: c.Tier}}}))
	if err != nil {
		return c.explain(ctx, "explain "+c.String(), err, false)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	_, err = fmt.Fprintln(s.out, answer.Msg.GetDecision().GetExplanation())
	return err
}
