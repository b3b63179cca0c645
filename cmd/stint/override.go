package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// overrideCommand has the commands about tiers and quotas of single keys.
type overrideCommand struct {
	Set  overrideSetCommand  `cmd:"" default:"withargs" help:"Give one key a tier or quotas of its own, or take them away."`
	List overrideListCommand `cmd:"" help:"List the keys that have a tier or quotas of their own."`
}

type overrideSetCommand struct {
	entry
	Tier   string            `help:"A tier of the policy, in the place of its default."`
	Quota  map[string]uint64 `help:"Quota of a limit, as daily=500." placeholder:"LIMIT=N"`
	Refill map[string]uint64 `help:"Tokens that come back to a token bucket in each period." placeholder:"LIMIT=N"`
	Rate   map[string]uint64 `help:"Rate of a GCRA limit." placeholder:"LIMIT=N"`
	For    string            `help:"How long the key has it, as 168h or 7d. Default: until it is deleted." xor:"end" placeholder:"DURATION"`
	Until  string            `help:"Until when the key has it, as 2030-01-01T00:00:00Z." xor:"end" placeholder:"TIME"`
	Delete bool              `help:"The key has the policy's numbers again."`
	auditFlags
	asking
}

const maybeOverridden = "it may have been done: repeat it, which changes nothing further"

// Run gives one key its own numbers, or removes them.
func (c *overrideSetCommand) Run(s streams) error {
	changes := c.Tier != "" || len(c.Quota)+len(c.Refill)+len(c.Rate) > 0
	switch {
	case c.Delete && (changes || c.For != "" || c.Until != ""):
		return usagef("override: --delete goes alone")
	case c.Delete:
		return c.delete(s)
	case !changes:
		return usagef("override: say what the key is to have: --tier, --quota, --refill or --rate; or --delete")
	}
	request := &stintv1.PutOverrideRequest{Namespace: c.Namespace, Policy: c.Policy, Key: c.Key, Tier: c.Tier,
		Limits: c.numbers(), Note: c.Note, IdempotencyId: c.ID}
	if end := c.For + c.Until; end != "" {
		var err error
		if request.ExpiresAt, err = c.untilOf(c.entry, end); err != nil {
			return err
		}
	}
	_, err := ask(c.as(c.Actor).remote, "override "+c.String(), maybeOverridden, c.policies().PutOverride, request)
	if err != nil {
		return err
	}
	if !c.json() {
		fmt.Fprintf(s.out, "override: %s, %s\n", c, c.end(request.ExpiresAt))
	}
	return c.printState(s)
}

func (c *overrideSetCommand) end(at *timestamppb.Timestamp) string {
	if at == nil {
		return "until it is deleted"
	}
	return "until " + instant(at)
}

// numbers groups the flags by limit.
func (c *overrideSetCommand) numbers() map[string]*stintv1.TierLimit {
	limits := map[string]*stintv1.TierLimit{}
	of := func(name string) *stintv1.TierLimit {
		if limits[name] == nil {
			limits[name] = &stintv1.TierLimit{}
		}
		return limits[name]
	}
	for name, n := range c.Quota {
		of(name).Quota = &n
	}
	for name, n := range c.Refill {
		of(name).Refill = &n
	}
	for name, n := range c.Rate {
		of(name).Rate = &n
	}
	return limits
}

func (c *overrideSetCommand) delete(s streams) error {
	answer, err := ask(c.as(c.Actor).remote, "override "+c.String(), maybeOverridden, c.policies().DeleteOverride,
		&stintv1.DeleteOverrideRequest{Namespace: c.Namespace, Policy: c.Policy, Key: c.Key, Note: c.Note,
			IdempotencyId: c.ID})
	err = show(s, c.output, answer, err, func(s streams, m *stintv1.DeleteOverrideResponse) {
		verdict := "no override to delete"
		if m.Deleted {
			verdict = "override deleted"
		}
		fmt.Fprintf(s.out, "%s: %s\n", verdict, c)
	})
	if err == nil && !c.json() {
		err = c.printState(s)
	}
	return err
}

// printState shows the key's current limits.
func (c *overrideSetCommand) printState(s streams) error {
	answer, err := c.remote.get(c.entry.get())
	return show(s, c.output, answer, err, func(s streams, m *stintv1.GetResponse) {
		printChanged(s, m.Limits, m.Leases, m.At)
	})
}

type overrideListCommand struct{ keyListing }

// Run lists the keys with an override.
func (c *overrideListCommand) Run(s streams) error {
	return c.list(s, "override list", &stintv1.ListKeysRequest{Overrides: true}, "POLICY\tKEY\tOVERRIDE\tENDS",
		func(k *stintv1.KeptKey) [][]any {
			return [][]any{{k.Policy, k.Key, overrideText(k.Override), instantOr(k.GetOverride().GetExpiresAt(), "-")}}
		})
}

// overrideText describes an override.
func overrideText(o *stintv1.Override) string {
	if o == nil {
		return "-"
	}
	var list []string
	if o.Tier != "" {
		list = append(list, "tier "+o.Tier)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		l := o.Limits[name]
		for _, number := range []struct {
			name  string
			value *uint64
		}{{"quota", l.Quota}, {"refill", l.Refill}, {"rate", l.Rate}} {
			if number.value != nil {
				list = append(list, fmt.Sprintf("%s %s %d", name, number.name, *number.value))
			}
		}
	}
	return strings.Join(list, ", ")
}
