package main

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type forgetCommand struct {
	Key       string `arg:"" help:"What is counted, as in user:42."`
	Namespace string `help:"Default: the server's."`
	Note      string `help:"Why, for the audit log. The key in it is replaced."`
	Actor     string `help:"Who, for the audit log." env:"STINT_ACTOR,USER"`
	Bills     bool   `help:"Its bills end too. Without it, a key that has any is not forgotten."`
	Yes       bool   `help:"Do not ask."`
	asking
}

// whatRemains is printed after a Forget: the copies that the servers cannot delete.
const whatRemains = `still with the key, for a while:
  other nodes' memory of denials (deny_cache): 10 s at most
  its leases, which may still be spent: 10 s at most, and what they have spent for as long as that counts
  the Raft log and snapshots of each node, until the shard has written two more snapshots, some 30,000 changes
  backups: nothing can be taken out of them; delete them after the time that you have promised
  answers to idempotency ids hold no key, but an id that you made of the key does: for idempotency_retention
  not in the servers' hands: your own logs, and the receivers of events and bills of the key
`

// confirm prints what will be lost, and prompts.
func (c *forgetCommand) confirm(s streams) error {
	if c.Yes {
		return nil
	}
	fmt.Fprintf(s.err, "forget %s ends what it has used, its lockout, block, override and open holds, "+
		"under all policies", c.Key)
	ctx, cancel := c.context()
	defer cancel()
	// A caller with permission to forget may lack permission to list: then this is all that is printed.
	if kept, err := c.observe().ListKeys(ctx, connect.NewRequest(&stintv1.ListKeysRequest{Namespace: c.Namespace,
		Prefix: c.Key, Count: 100})); err == nil {
		for _, k := range kept.Msg.Keys {
			if k.Key == c.Key {
				fmt.Fprintf(s.err, "\n  policy %s, override: %s", k.Policy, overrideText(k.Override))
			}
		}
	}
	if c.Bills {
		if n, known := c.countBills(ctx); known {
			fmt.Fprintf(s.err, "\n  bills: %d, lost unless they were listed before", n)
		} else {
			fmt.Fprint(s.err, "\n  all its bills, and how many is not known: lost unless they were listed before")
		}
	}
	fmt.Fprintln(s.err)
	return s.consent("Go on?", "forget: nothing was forgotten")
}

// countBills counts the bills of the key, page by page. known is false if the time ran out, the caller may not list
// them, or some cannot be read.
func (c *forgetCommand) countBills(ctx context.Context) (n int, known bool) {
	observe, request := c.observe(), &stintv1.ListUsageRequest{Namespace: c.Namespace, Key: c.Key}
	for {
		page, err := observe.ListUsage(ctx, connect.NewRequest(request))
		if err != nil || len(page.Msg.Unreadable) > 0 {
			return 0, false
		}
		n += len(page.Msg.Records)
		if request.PageToken = page.Msg.NextPageToken; request.PageToken == "" {
			return n, true
		}
	}
}

// Run deletes the records of a key, and prints what they were.
func (c *forgetCommand) Run(s streams) error {
	if err := c.confirm(s); err != nil {
		return err
	}
	return asked(s, c.asking.as(c.Actor), "forget "+c.Key, "some of it may have been forgotten: repeat it",
		c.limits().Forget, &stintv1.ForgetRequest{Namespace: c.Namespace, Key: c.Key, Note: c.Note, Bills: c.Bills},
		func(s streams, m *stintv1.ForgetResponse) {
			fmt.Fprintf(s.out,
				"forgotten: %d counters, %d open holds, the key in %d records of operations "+
					"and %d of the audit log\n%s",
				m.Counters, m.Holds, m.Operations, m.AuditRecords, whatRemains)
		})
}
