package main

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type getCommand struct {
	target
	StaleOK bool   `name:"stale-ok" help:"The node that is asked may answer from its own replica, which may be behind; it says by how much."`
	Tier    string `help:"Default: the key's own, else the policy's."`
	Explain bool   `help:"Tell in words what would be decided now, and why. Nothing is counted, and the exit code does not tell the decision: check --peek does."`
	Cost    uint64 `help:"With --explain: units that would be spent." default:"1"`
	output
	remote
}

// Run prints the state of a key.
func (c *getCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	if c.Explain {
		return c.describe(ctx, s)
	}
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
			waitText(behind.AsDuration()))
	}
	if err := printLimits(s, answer.Msg.Limits, answer.Msg.At); err != nil {
		return err
	}
	for _, f := range answer.Msg.Fired {
		fmt.Fprintf(s.out, "%s/%s of %s has reached its threshold %s; it is silent %s\n", f.Policy, f.Limit, f.Key, thresholdText(f),
			silentText(f, answer.Msg.At))
	}
	return nil
}

// describe prints in words the decision that would be made now, and its reason.
func (c *getCommand) describe(ctx context.Context, s streams) error {
	answer, err := c.limits(ctx).Check(ctx, connect.NewRequest(&stintv1.CheckRequest{
		Namespace: c.Namespace,
		Mode:      stintv1.Mode_MODE_PEEK,
		Explain:   true,
		Entries:   []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Cost: &c.Cost, Tier: c.Tier}},
	}))
	if err != nil {
		return c.explain(ctx, "get "+c.target.String(), err, false)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	_, err = fmt.Fprintln(s.out, answer.Msg.GetDecision().GetExplanation())
	return err
}

// thresholdText formats a threshold in units, and as a share of the quota if it is one.
func thresholdText(f *stintv1.FiredThreshold) string {
	if f.Percent == 0 {
		return plural(f.Units, "unit")
	}
	return fmt.Sprintf("%d%% (%s)", f.Percent, plural(f.Units, "unit"))
}

// silentText formats the time until which a threshold does not fire again.
func silentText(f *stintv1.FiredThreshold, at *timestamppb.Timestamp) string {
	if f.WindowEnd == nil {
		return "for ever"
	}
	return "for " + waitText(f.WindowEnd.AsTime().Sub(at.AsTime()))
}
