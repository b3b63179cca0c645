package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNegativeNumbersAreNoFlags(t *testing.T) {
	for line, want := range map[string]string{
		"adjust api user:42 add -5":              "adjust api user:42 add -- -5",
		"adjust api user:42 add -5 --limit day":  "adjust api user:42 add --limit day -- -5",
		"adjust api user:42 add --limit d -- -5": "adjust api user:42 add --limit d -- -5",
		"usage correct api user:42 -5 --note -7": "usage correct api user:42 --note -7 -- -5",
		"usage correct api user:42 --note -7 5":  "usage correct api user:42 --note -7 5",
		"usage --key -5":                         "usage --key -5",
		"adjust api user:42 add 5":               "adjust api user:42 add 5",
		"audit -n -5":                            "audit -n -5",
		"help adjust":                            "adjust --help",
		"--version":                              "version",
	} {
		if got := strings.Join(asMeant(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if got := asMeant(nil); !slices.Equal(got, []string{"--help"}) {
		t.Errorf("nothing: %q", got)
	}
}

// An exported STINT_ADDR is for other commands: without a policy to verify with, verify starts its own nodes.
func TestVerifyWithAnExportedAddress(t *testing.T) {
	t.Setenv("STINT_ADDR", "10.0.0.1:7400,10.0.0.2:7400")
	base := verifyCommand{Workers: 1, Keys: 1, Duration: time.Second}
	alone := base
	if err := alone.completeFlags(); err != nil || alone.Local != 3 || len(alone.Addr) > 0 {
		t.Errorf("%v: %d nodes, %q", err, alone.Local, alone.Addr)
	}
	named := base
	named.Policy = "verify"
	if err := named.completeFlags(); err != nil || named.Local != 0 || len(named.Addr) != 2 {
		t.Errorf("%v: %d nodes, %q", err, named.Local, named.Addr)
	}
}
