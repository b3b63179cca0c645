package main

import (
	"bytes"
	"fmt"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type auditCommand struct {
	Policy    string `help:"Only changes of this policy's keys." placeholder:"NAME"`
	Key       string `help:"Only changes of this key."`
	Namespace string `help:"Default: the server's."`
	Count     int    `short:"n" help:"How many at most, the newest; 0: all." default:"100"`
	Cursor    string `help:"Go on where an earlier audit ended, which said so." placeholder:"TEXT"`
	output
	remote
}

// Help implements kong.HelpProvider.
func (*auditCommand) Help() string {
	return "Who adjusted or overrode which key, and who changed policies, tokens and sealing secrets, newest first. " +
		"Each shard keeps its newest 1,024 changes, and of the policies 64 are kept.\n\n" +
		"    stint audit --key user:42 -n 10\n" +
		"    stint audit -n 0 -o json"
}

// Run lists the changes by hand.
func (c *auditCommand) Run(s streams) error {
	if c.Count < 0 {
		return usagef("audit: --count: is %d", c.Count)
	}
	all := &stintv1.AuditResponse{NextCursor: c.Cursor}
	for {
		answer, err := ask(c.remote, "audit", "", c.observe().Audit,
			&stintv1.AuditRequest{Namespace: c.Namespace, Policy: c.Policy, Key: c.Key,
				Count: pageOf(c.Count, len(all.Records)), Cursor: all.NextCursor})
		if err != nil {
			return err
		}
		all.Records, all.NextCursor = append(all.Records, answer.Records...), answer.NextCursor
		if all.NextCursor == "" || c.Count > 0 && len(all.Records) >= c.Count {
			break
		}
	}
	if c.json() {
		return printJSON(s, all)
	}
	if err := printAudit(s, all.Records); err != nil {
		return err
	}
	return s.tellMore(all.NextCursor)
}

// pageMost is the longest page that a server sends.
const pageMost = 1000

// pageOf returns the length of the next page: count is the number of rows wanted (0 for no limit), have how many are
// there.
func pageOf(count, have int) uint32 {
	if count == 0 {
		return pageMost
	}
	return uint32(min(count-have, pageMost))
}

// tellMore prints how to continue an incomplete list.
func (s streams) tellMore(cursor string) error {
	if cursor == "" {
		return nil
	}
	_, err := fmt.Fprintf(s.err, "stint: there are more: --cursor %s\n", cursor)
	return err
}

// changed names the object of a change: a key under a policy, the policies themselves, or the cluster.
func changed(r *stintv1.AuditRecord) string {
	switch {
	case r.Policy == "" && strings.HasPrefix(r.Deed, "token "):
		return r.Key
	case strings.HasPrefix(r.Deed, "secret "):
		return "sealing secrets"
	case r.Deed == "restore":
		return "cluster"
	case r.Deed == "replay":
		return "dead letters"
	case r.Deed == "forget":
		return "a key of " + r.Namespace
	case r.Policy == "" && r.Key == "":
		return "policies"
	}
	return r.Policy + " on " + r.Key
}

// printAudit writes a table of times, actors, actions and objects. The change and its note follow below each line: side
// by side they would be wider than a terminal.
func printAudit(s streams, records []*stintv1.AuditRecord) error {
	var text bytes.Buffer
	table := newTable(streams{out: &text})
	fmt.Fprintln(table, "TIME\tWHO\tACTION\tON")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", instant(r.At), r.Actor, r.Deed, changed(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(text.String(), "\n")
	fmt.Fprint(s.out, lines[0])
	for i, r := range records {
		fmt.Fprint(s.out, lines[i+1])
		if r.Before != "" || r.After != "" {
			fmt.Fprintf(s.out, "    %s -> %s\n", r.Before, r.After)
		}
		if r.Note != "" {
			fmt.Fprintf(s.out, "    %s\n", r.Note)
		}
	}
	return nil
}
