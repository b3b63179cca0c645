package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// Rules other than limits also affect decisions, so each has its own row.
func TestWhatDecidesBesideLimits(t *testing.T) {
	set, err := policy.Parse("test",
		[]byte("policies: {free: {limits: [{name: a, quota: 7, lifetime: {}}]}, flooded: {deny_cache: 250ms, "+
			"limits: [{name: a, quota: 7, lifetime: {}}]}, login: {lockout: {after: 3, base: 1m, factor: 2, "+
			"max: 1h}, limits: [{name: a, quota: 7, lifetime: {}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printPolicies(streams{out: &out},
		&stintv1.ListPoliciesResponse{Policies: api.PolicyMessages(set)}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"policies version 0", "", "POLICY LIMIT RULE TIERS", "flooded a quota: 7, lifetime: {}",
		"deny_cache 250ms", "free a quota: 7, lifetime: {}", "login a quota: 7, lifetime: {}",
		"lockout {after: 3, base: 1m, factor: 2, max: 1h, forgive_after: 24h}"}
	if !slices.Equal(rows, want) {
		t.Errorf("printed\n%s\nwant %q", out.String(), want)
	}
}
