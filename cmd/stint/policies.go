package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

type policiesCommand struct {
	What   string `arg:"" optional:"" help:"history: who put which version in force, when and why." enum:"history," default:""`
	Output string `short:"o" help:"table for people, json for programs, yaml: a policies file." enum:"table,json,yaml" default:"table"`
	remote
}

// Run prints the policies in force, or their history.
func (c *policiesCommand) Run(s streams) error {
	if c.What == "history" {
		return c.history(s)
	}
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.policies(ctx).List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	if err != nil {
		return c.explain(ctx, "policies", err, false)
	}
	switch c.Output {
	case "json":
		return printJSON(s, answer.Msg)
	case "yaml":
		return printYAML(s, answer.Msg)
	}
	return printPolicies(s, answer.Msg)
}

// history prints the versions and their actors, newest first.
func (c *policiesCommand) history(s streams) error {
	if c.Output == "yaml" {
		return usagef("policies history: has no yaml: -o table or json")
	}
	ctx, cancel := c.context()
	defer cancel()
	answer, err := c.policies(ctx).History(ctx, connect.NewRequest(&stintv1.PolicyHistoryRequest{}))
	if err != nil {
		return c.explain(ctx, "policies history", err, false)
	}
	if c.Output == "json" {
		return printJSON(s, answer.Msg)
	}
	table := newTable(s)
	fmt.Fprintln(table, "VERSION\tTIME\tWHO\tNOTE")
	for _, v := range answer.Msg.Versions {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", v.Version, instant(v.At), v.Actor, v.Note)
	}
	return table.Flush()
}

// printYAML writes a file that stint apply accepts.
func printYAML(s streams, m *stintv1.ListPoliciesResponse) error {
	set, err := api.PoliciesOf(m.Policies)
	if err != nil {
		return fmt.Errorf("the server's policies: %w", err)
	}
	_, err = s.out.Write(policy.Format(set))
	return err
}

func printPolicies(s streams, m *stintv1.ListPoliciesResponse) error {
	fmt.Fprintf(s.out, "policies version %d\n\n", m.Version)
	table := newTable(s)
	fmt.Fprintln(table, "POLICY\tLIMIT\tRULE\tTIERS")
	for _, p := range m.Policies {
		name, tiers := p.Name, tierNames(p)
		for _, l := range p.Limits {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, l.Name, ruleText(l), tiers)
			name, tiers = "", "" // only in the policy's first row
		}
		if p.Lockout != nil {
			fmt.Fprintf(table, "\tlockout\t%s\t\n", lockoutText(p.Lockout))
		}
		if p.DenyCache != nil {
			fmt.Fprintf(table, "\tdeny_cache\ta denial is repeated for %s without asking again\t\n", spanText(p.DenyCache))
		}
	}
	return table.Flush()
}

// lockoutText describes a ladder in words.
func lockoutText(l *stintv1.Lockout) string {
	return fmt.Sprintf("%s after %d violations in a row, then %d times as long, up to %s", spanText(l.Base), l.After, l.Factor,
		spanText(l.Max))
}

func tierNames(p *stintv1.Policy) string {
	var names []string
	for name := range p.Tiers {
		if name == p.DefaultTier {
			name += " (default)"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ruleText describes a limit in words.
func ruleText(l *stintv1.Limit) string {
	text := algorithmText(l)
	if l.Shadow {
		text += ", shadow"
	}
	return text
}

func spanText(d *durationpb.Duration) string {
	return policy.SpanText(limit.Span(d.AsDuration().Microseconds()))
}

func algorithmText(l *stintv1.Limit) string {
	switch a := l.Algorithm.(type) {
	case *stintv1.Limit_FixedWindow:
		from := "aligned"
		if a.FixedWindow.Anchor == stintv1.Anchor_ANCHOR_FIRST_HIT {
			from = "from the first hit"
		}
		return fmt.Sprintf("%d per %s, fixed window, %s", l.GetQuota(), spanText(a.FixedWindow.Period), from)
	case *stintv1.Limit_SlidingWindow:
		if a.SlidingWindow.Bucket == nil {
			return fmt.Sprintf("%d per %s, sliding window, weighted", l.GetQuota(), spanText(a.SlidingWindow.Period))
		}
		return fmt.Sprintf("%d per %s, sliding window by %s", l.GetQuota(), spanText(a.SlidingWindow.Period),
			spanText(a.SlidingWindow.Bucket))
	case *stintv1.Limit_SlidingLog:
		return fmt.Sprintf("%d per %s, sliding log", l.GetQuota(), spanText(a.SlidingLog.Period))
	case *stintv1.Limit_TokenBucket:
		return fmt.Sprintf("%d at once, %d back per %s, token bucket", l.GetQuota(), a.TokenBucket.Refill,
			spanText(a.TokenBucket.Per))
	case *stintv1.Limit_Gcra:
		return fmt.Sprintf("%d at once, %d per %s, GCRA", l.GetQuota(), a.Gcra.Rate, spanText(a.Gcra.Per))
	case *stintv1.Limit_Calendar:
		return fmt.Sprintf("%d per %s", l.GetQuota(), calendarText(a.Calendar))
	case *stintv1.Limit_Concurrency:
		return fmt.Sprintf("%d held at once", l.GetQuota())
	case *stintv1.Limit_Lifetime:
		return fmt.Sprintf("%d forever", l.GetQuota())
	case *stintv1.Limit_Unlimited:
		return "counted, never denied"
	}
	return fmt.Sprintf("%d", l.GetQuota())
}

// calendarText describes a calendar period in words: "month from day 15, America/New_York".
func calendarText(c *stintv1.Calendar) string {
	text := strings.ToLower(strings.TrimPrefix(c.Unit.String(), "UNIT_"))
	if c.Every > 1 {
		text = fmt.Sprintf("%d %ss", c.Every, text)
	}
	if c.AnchorDay > 1 {
		text += fmt.Sprintf(" from day %d", c.AnchorDay)
	}
	if c.WeekStart > 1 {
		text += " from " + time.Weekday(c.WeekStart%7).String()
	}
	return text + ", " + c.TimeZone
}
