package main

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// target is the key that a command is about.
type target struct {
	Policy    string `arg:"" help:"Name of the policy."`
	Key       string `arg:"" help:"What is counted, as in user:42."`
	Namespace string `help:"Default: the server's."`
}

func (t target) String() string { return t.Policy + " on " + t.Key }

type checkCommand struct {
	target
	Cost uint64 `help:"Units to spend." default:"1"`
	Tier string `help:"Default: the policy's default tier."`
	ID   string `help:"Idempotency id: asked again with it, the same request is counted once."`
	Peek bool   `help:"Decide without counting."`
	output
	remote
}

// Help implements kong.HelpProvider.
func (*checkCommand) Help() string {
	return "Exit code 0: allowed. 3: denied. Anything else: there was no decision.\n\n" +
		"    stint check login user:42 && echo come in\n" +
		"    stint check api user:42 --cost 5 --tier researcher -o json"
}

// Run asks, prints the decision, and tells it by the exit code.
func (c *checkCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	request := &stintv1.CheckRequest{Namespace: c.Namespace, IdempotencyId: c.ID,
		Entries: []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Cost: &c.Cost, Tier: c.Tier}}}
	if c.Peek {
		request.Mode = stintv1.Mode_MODE_PEEK
	}
	answer, err := c.limits(ctx).Check(ctx, connect.NewRequest(request))
	if err != nil {
		return c.explain(ctx, "check "+c.target.String(), err, !c.Peek)
	}
	if c.json() {
		err = printJSON(s, answer.Msg)
	} else {
		err = c.print(s, answer.Msg.Decision)
	}
	if err == nil && !answer.Msg.Decision.GetAllowed() {
		return errDenied
	}
	return err
}

func (c *checkCommand) print(s streams, d *stintv1.Decision) error {
	fmt.Fprintln(s.out, verdictLine(c.target.String(), d))
	return printLimits(s, d.GetLimits(), d.GetDecidedAt())
}

func verdictLine(what string, d *stintv1.Decision) string {
	var line strings.Builder
	if d.GetAllowed() {
		line.WriteString("allowed: " + what)
	} else {
		line.WriteString("denied: " + what)
		if by := d.GetDeniedBy(); len(by) > 0 {
			line.WriteString(", by " + strings.Join(by, ", "))
		}
		if d.GetRetryAfter() == nil {
			line.WriteString(", and waiting will not help")
		} else {
			line.WriteString(", retry in " + d.GetRetryAfter().AsDuration().String())
		}
		if d.GetReason() != "" {
			line.WriteString(": " + d.GetReason())
		}
	}
	if d.GetReplayed() {
		line.WriteString(" (counted before under this id, not again)")
	}
	if d.GetShadowDenied() {
		line.WriteString(" (a shadowed limit would have denied)")
	}
	return line.String()
}

type getCommand struct {
	target
	Tier string `help:"Default: the policy's default tier."`
	output
	remote
}

// Run prints the state of a key.
func (c *getCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.limits(ctx).Get(ctx, connect.NewRequest(&stintv1.GetRequest{Namespace: c.Namespace,
		Entries: []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Tier: c.Tier}}}))
	if err != nil {
		return c.explain(ctx, "get "+c.target.String(), err, false)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	return printLimits(s, answer.Msg.Limits, answer.Msg.At)
}

type adjustCommand struct {
	target
	Reset bool   `help:"Put the limits back to rest, as if the key had never been seen." required:""`
	Limit string `help:"Only this limit of the policy."`
	ID    string `help:"Idempotency id: asked again with it, the same request is done once."`
	output
	remote
}

// Run resets a key and prints its state.
func (c *adjustCommand) Run(s streams) error {
	if !c.Reset {
		return usagef("adjust: say what to do: --reset")
	}
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.limits(ctx).Adjust(ctx, connect.NewRequest(&stintv1.AdjustRequest{Namespace: c.Namespace,
		Policy: c.Policy, Key: c.Key, Limit: c.Limit, IdempotencyId: c.ID,
		Op: &stintv1.AdjustRequest_Reset_{Reset_: &stintv1.Reset{}}}))
	if err != nil {
		return c.explain(ctx, "adjust "+c.target.String(), err, true)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	return printLimits(s, answer.Msg.Limits, nil)
}
