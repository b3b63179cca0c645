package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// policiesCommand has the commands about policies, current and earlier.
type policiesCommand struct {
	List     policiesListCommand     `cmd:"" default:"withargs" help:"List the policies in force."`
	Check    policiesCheckCommand    `cmd:"" help:"Check a policies file here, offline. Exit code 2: it is wrong."`
	Schema   policiesSchemaCommand   `cmd:"" help:"Print the JSON Schema of policies files, for editors."`
	History  policiesHistoryCommand  `cmd:"" help:"List the versions: who put which in force, when and why."`
	Rollback policiesRollbackCommand `cmd:"" help:"Put an earlier version in force again."`
}

type policiesListCommand struct {
	Output string `short:"o" help:"table for people, json for programs, yaml: a policies file." enum:"table,json,yaml" default:"table"`
	remote
}

// Run prints the policies in force.
func (c *policiesListCommand) Run(s streams) error {
	answer, err := c.inForce("policies")
	if err != nil {
		return err
	}
	switch c.Output {
	case "json":
		return printJSON(s, answer)
	case "yaml":
		set, err := setOf(answer.Policies, answer.Rules)
		if err != nil {
			return err
		}
		raw(s.out).Write(policy.Format(set))
		return nil
	}
	return printPolicies(s, answer)
}

// inForce fetches the policies in force on behalf of a command.
func (r remote) inForce(command string) (*stintv1.ListPoliciesResponse, error) {
	return ask(r, command, "", r.policies().List, &stintv1.ListPoliciesRequest{})
}

type policiesCheckCommand struct {
	File string `arg:"" help:"Policies file; - is stdin."`
}

// Run reads the file as apply does.
func (c *policiesCheckCommand) Run(s streams) error {
	set, err := readPolicies(s, c.File)
	if err != nil {
		return usageError{err}
	}
	count := "1 policy"
	if n := len(set.Names()); n != 1 {
		count = fmt.Sprintf("%d policies", n)
	}
	fmt.Fprintf(s.out, "%s is valid: %s\n", c.File, count)
	return nil
}

type policiesSchemaCommand struct{}

// Run prints the schema.
func (c *policiesSchemaCommand) Run(s streams) error {
	raw(s.out).Write(policy.JSONSchema())
	return nil
}

type policiesHistoryCommand struct {
	asking
}

// Run prints the versions and their actors, newest first.
func (c *policiesHistoryCommand) Run(s streams) error {
	return asked(s, c.asking, "policies history", "", c.policies().History, &stintv1.PolicyHistoryRequest{},
		func(s streams, m *stintv1.PolicyHistoryResponse) {
			printTable(s, "VERSION\tTIME\tWHO\tKEPT\tNOTE", m.Versions, func(v *stintv1.PolicyVersion) []any {
				kept := "yes"
				if !v.Kept {
					kept = "-"
				}
				return []any{v.Version, instant(v.At), v.Actor, kept, v.Note}
			})
		})
}

type policiesRollbackCommand struct {
	Version uint64 `arg:"" help:"The version to put in force again: stint policies history lists them."`
	YAML    bool   `name:"yaml" help:"Print the version as a policies file, and change nothing."`
	applying
}

// Run applies the version again. It changes nothing if another version has been applied meanwhile.
func (c *policiesRollbackCommand) Run(s streams) error {
	set, inForce, err := c.earlier()
	if err != nil {
		return err
	}
	if c.YAML {
		raw(s.out).Write(policy.Format(set))
		return nil
	}
	apply := &applyCommand{File: fmt.Sprintf("version %d", c.Version), ExpectedVersion: &inForce, applying: c.applying}
	apply.Note = fmt.Sprintf("rollback to version %d", c.Version)
	if c.Note != "" {
		apply.Note += ": " + c.Note
	}
	return apply.put(s, set)
}

// earlier returns the version to go back to, and the number of the version in force.
func (c *policiesRollbackCommand) earlier() (set *policy.Set, inForce uint64, err error) {
	what := fmt.Sprintf("policies rollback %d", c.Version)
	now, err := c.inForce(what)
	if err != nil {
		return nil, 0, err
	}
	answer, err := ask(c.remote, what, "", c.policies().GetVersion,
		&stintv1.GetPolicyVersionRequest{Version: c.Version})
	if err != nil {
		return nil, 0, err
	}
	set, err = setOf(answer.Policies, answer.Rules)
	return set, now.Version, err
}

// setOf makes a set of a server's messages.
func setOf(policies []*stintv1.Policy, rules string) (*policy.Set, error) {
	set, err := api.PoliciesOf(policies)
	if err != nil {
		return nil, fmt.Errorf("the server's policies: %w", err)
	}
	if set, err = policy.ParseRules("rules", []byte(rules), set); err != nil {
		return nil, fmt.Errorf("the server's rules: %w", err)
	}
	return set, nil
}

// printPolicies shows each limit, and each other field, as in a file.
func printPolicies(s streams, m *stintv1.ListPoliciesResponse) error {
	fmt.Fprintf(s.out, "policies version %d\n\n", m.Version)
	table := newTable(s)
	fmt.Fprintln(table, "POLICY\tLIMIT\tRULE\tTIERS")
	for _, message := range m.Policies {
		p, err := api.PolicyFrom(message)
		if err != nil {
			return fmt.Errorf("the server's policy %s: %w", message.Name, err)
		}
		name, tiers := p.Name, tierNames(p)
		for _, row := range p.Rows() {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, row.Name, row.Text, tiers)
			name, tiers = "", "" // only in the policy's first row
		}
	}
	table.Flush()
	if m.Rules != "" {
		fmt.Fprintf(s.out, "\n%s", m.Rules)
	}
	return nil
}

func tierNames(p *policy.Policy) string {
	names := slices.Sorted(maps.Keys(p.Tiers))
	for i, name := range names {
		if name == p.DefaultTier {
			names[i] += " (default)"
		}
	}
	return strings.Join(names, ", ")
}
