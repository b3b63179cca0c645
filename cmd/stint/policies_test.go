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
	set, err := policy.Parse("test", []byte("policies: {free: {limits: [{name: a, quota: 7, lifetime: {}}]}, flooded: {deny_cache: 250ms, "+
		"limits: [{name: a, quota: 7, lifetime: {}}]}, login: {lockout: {after: 3, base: 1m, factor: 2, max: 1h}, "+
		"limits: [{name: a, quota: 7, lifetime: {}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printPolicies(streams{out: &out}, &stintv1.ListPoliciesResponse{Policies: api.PolicyMessages(set)}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"policies version 0", "", "POLICY LIMIT RULE TIERS", "flooded a 7 forever",
		"deny_cache a denial is repeated for 250ms without asking again", "free a 7 forever", "login a 7 forever",
		"lockout 1m after 3 violations in a row, then 2 times as long, up to 1h"}
	if !slices.Equal(rows, want) {
		t.Errorf("printed\n%s\nwant %q", out.String(), want)
	}
}

// The descriptions of rules in the table of stint policies, for people who do not know the file.
func TestRulesInWords(t *testing.T) {
	for rule, want := range map[string]string{
		"calendar: {unit: day}": "7 per day, UTC",
		"calendar: {unit: month, anchor_day: 15, time_zone: America/New_York}": "7 per month from day 15, America/New_York",
		"calendar: {unit: week, every: 2, week_start: 7}":                      "7 per 2 weeks from Sunday, UTC",
		"concurrency: {}, shadow: true":                                        "7 held at once, shadow",
	} {
		set, err := policy.Parse("test", []byte("policies: {p: {limits: [{name: a, quota: 7, "+rule+"}]}}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := ruleText(api.PolicyMessages(set)[0].Limits[0]); got != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}
