package main

import (
	"testing"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/policy"
)

// What the table of stint policies says of a rule, for people who do not know the file.
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
