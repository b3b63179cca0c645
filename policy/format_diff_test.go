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

// A difference is one of meaning: what a file may leave out, spelling and order are none.
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
			got := map[[2]bool]string{{false, true}: "+", {true, false}: "-", {true, true}: "~"}[[2]bool{c.Before != nil, c.After != nil}]
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
