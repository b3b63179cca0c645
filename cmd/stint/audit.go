package main

import (
	"fmt"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type auditCommand struct {
	Policy    string `help:"Only changes of this policy's keys." placeholder:"NAME"`
	Key       string `help:"Only changes of this key."`
	Namespace string `help:"Default: the server's."`
	Count     uint32 `short:"n" help:"How many at most, the newest." default:"100"`
	output
	remote
}

// Help implements kong.HelpProvider.
func (*auditCommand) Help() string {
	return "Who adjusted or overrode which key, newest first. Each shard keeps its newest 1,024 changes.\n\n" +
		"    stint audit --key user:42 -n 10"
}

// Run lists the changes that people made.
func (c *auditCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.observe(ctx).Audit(ctx, connect.NewRequest(&stintv1.AuditRequest{Namespace: c.Namespace,
		Policy: c.Policy, Key: c.Key, Count: c.Count}))
	if err != nil {
		return c.explain(ctx, "audit", err, false)
	}
	if c.json() {
		return printJSON(s, answer.Msg)
	}
	table := newTable(s)
	fmt.Fprintln(table, "TIME\tWHO\tDEED\tPOLICY\tKEY\tBEFORE\tAFTER\tNOTE")
	for _, r := range answer.Msg.Records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", instant(r.At), r.Actor, r.Deed, r.Policy, r.Key, r.Before,
			r.After, r.Note)
	}
	return table.Flush()
}
