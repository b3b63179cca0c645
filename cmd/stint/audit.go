package main

import (
	"bytes"
	"fmt"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// auditFlags has the flags of every command that changes a key by hand.
type auditFlags struct {
	Note  string `help:"Why, for the audit log."`
	Actor string `help:"Who, for the audit log." env:"STINT_ACTOR,USER"`
	ID    string `help:"Idempotency id: asked again with it, the same request is done once."`
}

type auditCommand struct {
	Policy    string `help:"Only changes of this policy's keys." placeholder:"NAME"`
	Key       string `help:"Only changes of this key."`
	Namespace string `help:"Default: the server's."`
	Count     int    `short:"n" help:"How many at most, the newest; 0: all." default:"100"`
	Cursor    string `help:"Go on where an earlier audit ended, which said so." placeholder:"TEXT"`
	asking
}

// Run lists the changes by hand.
func (c *auditCommand) Run(s streams) error {
	all := &stintv1.AuditResponse{NextCursor: c.Cursor}
	err := pages("audit", c.Count, func(size uint32) (more bool, rows int, err error) {
		answer, err := ask(c.remote, "audit", "", c.observe().Audit, &stintv1.AuditRequest{Namespace: c.Namespace,
			Policy: c.Policy, Key: c.Key, Count: size, Cursor: all.NextCursor})
		all.Records, all.NextCursor = append(all.Records, answer.GetRecords()...), answer.GetNextCursor()
		return all.NextCursor != "", len(all.Records), err
	})
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(s, all)
	}
	printAudit(s, all.Records)
	s.tellMore(all.NextCursor)
	return nil
}

// auditObject names the object of a change: a key under a policy, the policies themselves, or the cluster.
func auditObject(r *stintv1.AuditRecord) string {
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
func printAudit(s streams, records []*stintv1.AuditRecord) {
	var text bytes.Buffer
	table := newTable(streams{out: &text})
	fmt.Fprintln(table, "TIME\tWHO\tACTION\tON")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", instant(r.At), r.Actor, r.Deed, auditObject(r))
	}
	table.Flush()
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
}
