package main

import (
	"fmt"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type getCommand struct {
	entry
	StaleOK bool   `name:"stale-ok" help:"The node that is asked may answer from its own replica, which may be behind; it says by how much."`
	Tier    string `help:"Default: the key's own, else the policy's."`
	Explain bool   `help:"Tell in words what would be decided now, and why. Nothing is counted, and the exit code does not tell the decision: check --peek does."`
	Cost    uint64 `help:"With --explain: units that would be spent." default:"1"`
	asking
}

// Run prints the state of a key.
func (c *getCommand) Run(s streams) error {
	if c.Explain {
		return c.describe(s)
	}
	request := c.entry.get()
	request.StaleOk, request.Entries[0].Tier = c.StaleOK, c.Tier
	answer, err := c.remote.get(request)
	return show(s, c.output, answer, err, printKey)
}

// get reads the state of one key.
func (r remote) get(m *stintv1.GetRequest) (*stintv1.GetResponse, error) {
	return ask(r, "get "+m.Entries[0].Policy+" on "+m.Entries[0].Key, "", r.limits().Get, m)
}

// printKey writes the state of a key as text.
func printKey(s streams, m *stintv1.GetResponse) {
	if m.StaleBy != nil {
		fmt.Fprintf(s.out, "as of %s, a replica's, %s old at most\n", instant(m.At), waitText(m.StaleBy.AsDuration()))
	}
	printLimits(s, m.Limits, m.At, false)
	for _, f := range m.Fired {
		fmt.Fprintf(s.out, "%s/%s of %s has reached its threshold %s; it is silent %s\n", f.Policy, f.Limit, f.Key,
			thresholdText(f), silentText(f, m.At))
	}
	printLeases(s, m.Leases, "")
}

// describe prints in words the decision that would be made now, and its reason.
func (c *getCommand) describe(s streams) error {
	request := &stintv1.CheckRequest{
		Namespace: c.Namespace,
		Mode:      stintv1.Mode_MODE_PEEK,
		Explain:   true,
		Entries:   []*stintv1.Entry{{Policy: c.Policy, Key: c.Key, Cost: &c.Cost, Tier: c.Tier}},
	}
	return asked(s, c.asking, "get "+c.entry.String(), "", c.limits().Check, request,
		func(s streams, m *stintv1.CheckResponse) { fmt.Fprintln(s.out, m.GetDecision().GetExplanation()) })
}
