package main

import (
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type checkCommand struct {
	entries
	ID   string `help:"Idempotency id: asked again with it, the same request is counted once."`
	Mode string `help:"enforce: count what is allowed. count: count regardless of the limits. peek: count nothing. partial: take as much as there is room for." enum:"enforce,count,peek,partial" default:"enforce"`
	Peek bool   `help:"The same as --mode peek."`
	outputID
	remote
}

// Run asks, prints the decision, and returns errDenied for a denial.
func (c *checkCommand) Run(s streams) error {
	messages, err := c.messages()
	if err != nil {
		return err
	}
	if c.Peek {
		c.Mode = "peek"
	}
	maybe := maybeCounted
	if c.Mode == "peek" {
		maybe = ""
	}
	answer, err := ask(c.remote, "check "+c.String(), maybe, c.limits().Check,
		&stintv1.CheckRequest{Namespace: c.Namespace, IdempotencyId: c.ID, Entries: messages,
			Mode: stintv1.Mode(stintv1.Mode_value["MODE_"+strings.ToUpper(c.Mode)])})
	if err != nil {
		return err
	}
	d := answer.Decision
	return c.print(s, answer, d, d.GetDecisionId(), verdictLine("allowed", c.String(), d), func() {
		printDecided(s, d)
	})
}

// verdictLine describes a decision in one sentence. done is the verb for an allowed one.
func verdictLine(done, what string, d *stintv1.Decision) string {
	var line strings.Builder
	if d.GetAllowed() {
		line.WriteString(done + ": " + what)
	} else {
		if d.GetOutcome() == stintv1.Outcome_OUTCOME_CHALLENGE {
			line.WriteString("challenged: " + what)
		} else {
			line.WriteString("denied: " + what)
		}
		if by := d.GetDeniedBy(); len(by) > 0 {
			line.WriteString(", by " + strings.Join(by, ", "))
		}
		if d.GetRetryAfter() == nil {
			line.WriteString(", and waiting will not help")
		} else {
			line.WriteString(", retry in " + waitText(d.GetRetryAfter().AsDuration()))
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
