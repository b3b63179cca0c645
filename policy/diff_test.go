package policy_test

import (
	"testing"

	"github.com/stint-io/stint/policy"
)

func parsed(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Diff compares meaning: defaults written out, spelling and order make no difference.
func TestDiff(t *testing.T) {
	before := parsed(t, `
policies:
  same: {limits: [{name: a, quota: 10, fixed_window: {period: 60s, anchor: epoch}}], idempotency_retention: 10m}
  gone: {limits: [{name: a, quota: 1, lifetime: {}}]}
  changed: {limits: [{name: a, quota: 1, lifetime: {}}], tiers: {x: {a: {quota: 2}}}}
`)
	after := parsed(t, `
policies:
  changed: {limits: [{name: a, quota: 1, lifetime: {}}], tiers: {x: {a: {quota: 3}}}}
  added: {limits: [{name: a, quota: 1, lifetime: {}}]}
  same: {limits: [{name: a, quota: 1_0, fixed_window: {period: 1m}}]}
`)
	check := func(before, after *policy.Set, want ...string) {
		t.Helper()
		changes := policy.Diff(before, after)
		if len(changes) != len(want) {
			t.Fatalf("%d changes, want %v", len(changes), want)
		}
		for i, c := range changes {
			got := map[[2]bool]string{{false, true}: "+", {true, false}: "-",
				{true, true}: "~"}[[2]bool{c.Before != nil, c.After != nil}]
			if got += c.Name; got != want[i] {
				t.Errorf("change %d is %s, want %s", i, got, want[i])
			}
			if c.Before != nil && c.Before.Name != c.Name || c.After != nil && c.After.Name != c.Name {
				t.Errorf("change %d of %s carries another policy", i, c.Name)
			}
		}
	}
	check(before, after, "+added", "~changed", "-gone")
	check(after, before, "-added", "~changed", "+gone")
	check(before, before)
	check(nil, after, "+added", "+changed", "+same")
	check(after, nil, "-added", "-changed", "-same")
	check(nil, nil)
}

// Diff sees a change of every field.
func TestDiffSeesEveryField(t *testing.T) {
	const limits = `limits: [{name: a, quota: 1, calendar: {unit: month}}]`
	before := parsed(t, "policies: {other: {"+limits+"}, p: {"+limits+", count_denied: true, "+
		"lockout: {after: 3, base: 1s}}}")
	for _, text := range []string{
		limits + ", count_denied: true",
		limits + ", lockout: {after: 3, base: 1s}",
		limits + ", count_denied: true, lockout: {after: 4, base: 1s}",
		limits + ", count_denied: true, lockout: {after: 3, base: 2s}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s, factor: 3}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s, max: 2h}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s, forgive_after: 25h}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s, on_denied: true}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s, step_down: true}",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s}, on_expire: commit",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s}, on_change: reset",
		limits + ", count_denied: true, lockout: {after: 3, base: 1s}, parent: other",
		`limits: [{name: a, quota: 1, calendar: {unit: year}}], count_denied: true, lockout: {after: 3, base: 1s}`,
		`limits: [{name: a, quota: 1, calendar: {unit: month, every: 2}}], count_denied: true,` +
			` lockout: {after: 3, base: 1s}`,
		`limits: [{name: a, quota: 1, calendar: {unit: month, anchor_day: 2}}], count_denied: true,` +
			` lockout: {after: 3, base: 1s}`,
		`limits: [{name: a, quota: 1, calendar: {unit: month, time_zone: NZ}}], count_denied: true,` +
			` lockout: {after: 3, base: 1s}`,
		`limits: [{name: a, quota: 1, concurrency: {}}], count_denied: true, lockout: {after: 3, base: 1s}`,
	} {
		after := parsed(t, "policies: {other: {"+limits+"}, p: {"+text+"}}")
		if changes := policy.Diff(before, after); len(changes) != 1 || changes[0].Name != "p" {
			t.Errorf("%s: %d changes", text, len(changes))
		}
	}
	flooded := parsed(t, "policies: {p: {"+limits+", deny_cache: 250ms}}")
	for _, text := range []string{limits, limits + ", deny_cache: 300ms"} {
		if changes := policy.Diff(flooded, parsed(t, "policies: {p: {"+text+"}}")); len(changes) != 1 {
			t.Errorf("%s: %d changes from deny_cache: 250ms", text, len(changes))
		}
	}
}
