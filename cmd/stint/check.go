package main

import (
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// target is the key of a command.
type target struct {
	Policy    string `arg:"" help:"Name of the policy."`
	Key       string `arg:"" help:"What is counted, as in user:42."`
	Namespace string `help:"Default: the server's."`
}

// get asks for the state of the key.
func (t target) get() *stintv1.GetRequest {
	return &stintv1.GetRequest{Namespace: t.Namespace, Entries: []*stintv1.Entry{{Policy: t.Policy, Key: t.Key}}}
}

func (t target) String() string { return t.Policy + " on " + t.Key }

// entries has the keys that a command decides together: the target and further pairs.
type entries struct {
	target
	More []string `arg:"" optional:"" name:"policy-key" help:"Further policies and keys, decided together with the first: all or none."`
	Cost []uint64 `help:"Units to spend: one number for all keys, or one for each, separated by commas." default:"1"`
	Tier []string `help:"Tier of each key, in their order, separated by commas. Default: the key's own, else the policy's."`
}

// messages returns the entries in the form of a request.
func (e entries) messages() ([]*stintv1.Entry, error) {
	names := append([]string{e.Policy, e.Key}, e.More...)
	if len(names)%2 != 0 {
		return nil, usagef("%s: needs a key: policies and keys come in pairs", names[len(names)-1])
	}
	count := len(names) / 2
	if len(e.Cost) != 1 && len(e.Cost) != count {
		return nil, usagef("--cost: are %d numbers for %d keys: one for all, or one for each", len(e.Cost), count)
	}
	if len(e.Tier) > count {
		return nil, usagef("--tier: are %d tiers for %d keys", len(e.Tier), count)
	}
	messages := make([]*stintv1.Entry, count)
	for i := range messages {
		messages[i] = &stintv1.Entry{Policy: names[2*i], Key: names[2*i+1], Cost: &e.Cost[min(i, len(e.Cost)-1)]}
		if i < len(e.Tier) {
			messages[i].Tier = e.Tier[i]
		}
	}
	return messages, nil
}

func (e entries) String() string {
	text := e.target.String()
	for i := 0; i+1 < len(e.More); i += 2 {
		text += ", " + e.More[i] + " on " + e.More[i+1]
	}
	return text
}

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
		printLimits(s, d.GetLimits(), d.GetDecidedAt())
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
