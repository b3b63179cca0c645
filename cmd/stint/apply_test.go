package main

import (
	"path/filepath"
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// changedPolicies are the policies of --dev with one added, one changed and two ended.
const changedPolicies = `
policies:
  per-ip:
    reason: Slow down.
    limits:
      - {name: minute, quota: 50, fixed_window: {period: 60s}}
  otp:
    parent: per-ip
    count_denied: true
    limits: [{name: hour, quota: 3, calendar: {unit: hour, time_zone: Europe/Paris}}]
`

func TestApplyDryRun(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	transcriptFrom(t, "dry_run", 0, changedPolicies, "apply", "-f", "policies.yaml", "--dry-run", "--addr", addr)
	if f.count("apply") > 0 || f.inForce().Version != 2 {
		t.Error("a dry run changed something")
	}
}

// With --if-changed nothing is written, and no person is asked, where the file has what is in force.
func TestApplyIfChanged(t *testing.T) {
	f := newCluster()
	same := string(policy.Format(f.inForce().Set))
	addr := f.serve(t)
	transcriptFrom(t, "apply_same", 0, same, "apply", "-f", "policies.yaml", "--if-changed", "--addr", addr)
	transcriptFrom(t, "apply_same_pruned", 0, same, "apply", "-f", "policies.yaml", "--if-changed", "--prune", "-o",
		"json", "--addr", addr)
	if f.count("apply") > 0 || f.inForce().Version != 2 {
		t.Errorf("it was applied: %q", f.asked)
	}
	transcriptFrom(t, "apply_changed", 0, changedPolicies, "apply", "-f", "policies.yaml", "--if-changed", "--prune",
		"--addr", addr)
	if f.count("apply") != 1 || f.inForce().Version != 3 {
		t.Errorf("it was not applied: %q", f.asked)
	}
}

// Apply ends when the last shard decides by the new version, and shows the shards that it is waiting for.
func TestApplyWaitsForTheShards(t *testing.T) {
	f := newCluster()
	f.pending = []uint32{0, 1}
	questions := 0
	f.step = func(s *stintv1.StatusResponse) {
		if questions++; questions <= len(f.pending) {
			s.Shards[questions-1].PoliciesVersion = 3
		}
	}
	transcriptFrom(t, "apply", 0, changedPolicies, "apply", "-f", "policies.yaml", "--prune", "--note", "less",
		"--expected-version", "2", "--addr", f.serve(t))
	if f.count("apply less") != 1 || questions != 2 {
		t.Errorf("asked %q", f.asked)
	}
}

func TestApplyDoesNotWaitForEver(t *testing.T) {
	f := newCluster()
	f.pending = []uint32{0, 1}
	addr := f.serve(t)
	transcriptFrom(t, "apply_late", 1, changedPolicies, "apply", "-f", "policies.yaml", "--prune", "--wait", "1ms",
		"--addr", addr)
	transcriptFrom(t, "apply_no_wait", 0, changedPolicies, "apply", "-f", "policies.yaml", "--prune", "--wait", "0",
		"--addr", addr)
	if f.count("status") != 1 {
		t.Errorf("asked %q", f.asked)
	}
}

func TestApplyOfWrongFiles(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	transcriptFrom(t, "apply_wrong", 1, "policies:\n  p:\n    limits:\n      - {name: a, quota: -1, lifetime: {}}\n",
		"apply", "-f", "policies.yaml", "--addr", addr)
	transcriptFrom(t, "apply_conflict", 1, changedPolicies, "apply", "-f", "policies.yaml", "--expected-version", "1",
		"--addr", addr)
	transcriptFrom(t, "apply_empty", 1, "policies: {}", "apply", "-f", "policies.yaml", "--addr", addr)
	if f.inForce().Version != 2 {
		t.Error("something was applied")
	}
}

// A caller that cannot know whether a version is in force learns how to find out.
func TestApplyOfUnknownFate(t *testing.T) {
	f := newCluster()
	f.err = &shard.Error{Code: shard.UnknownOutcome, Message: "the owner did not answer"}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	writeFile(t, file, changedPolicies)
	_, _, stderr := stint("apply", "-f", file, "--prune", "--addr", f.serve(t))
	if want := "stint: apply: aborted: the owner did not answer (it may be in force all the same: " +
		"stint policies tells the version)\n"; stderr != want {
		t.Errorf("got %s", stderr)
	}
}

// The output of stint policies -o yaml is a policies file, and applying it changes nothing.
func TestPoliciesAsAFile(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	code, stdout, stderr := stint("policies", "-o", "yaml", "--addr", addr)
	if code != 0 || stderr != "" || stdout != string(policy.Format(policy.Dev())) {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	writeFile(t, file, stdout)
	code, stdout, stderr = stint("apply", "-f", file, "--dry-run", "--addr", addr)
	if code != 0 || stdout != "nothing differs from policies version 2\n" || stderr != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if _, stdout, _ = stint("policies", "--addr", addr); !strings.HasPrefix(stdout, "policies version 2\n\nPOLICY ") {
		t.Errorf("got %s", stdout)
	}
}

func TestChangedLines(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "p: a", "+p:+a"},
		{"p: a", "", "-p:-a"},
		{"p: a b c", "p: a x c", "~p: a-b+x c"},
		{"p: a b", "p: b", "~p:-a b"},
		{"p: b", "p: b c a", "~p: b+c+a"},
		{"p: a a b", "p: b a", "~p:-a-a b+a"},
	} {
		got := strings.Join(changedLines(strings.Fields(c.before), strings.Fields(c.after)), "\n")
		got = strings.NewReplacer("\n", "", "+ ", "+", "- ", "-", "~ ", "~", "  ", " ").Replace(got)
		if got != c.want {
			t.Errorf("%q to %q: %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

// A policy that is missing from the file ends only after consent: a file with one policy is often meant as an addition.
func TestApplyEndsNothingUnasked(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	transcriptFrom(t, "apply_ends", 1, changedPolicies, "apply", "-f", "policies.yaml", "--addr", addr)
	if f.count("apply") > 0 || f.inForce().Version != 2 {
		t.Error("something was applied")
	}
	file := filepath.Join(t.TempDir(), "more.yaml")
	writeFile(t, file, string(policy.Format(policy.Dev()))+"  more: {limits: [{name: ever, quota: 3, lifetime: {}}]}\n")
	if code, stdout, stderr := stint("apply", "-f", file, "--addr", addr); code != 0 || f.inForce().Version != 3 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	// A policy that another person adds meanwhile would end without a question.
	if f.expected == nil || *f.expected != 2 {
		t.Error("it was not applied to the version that was looked at")
	}
}

func TestPolicyHistoryOnTheCommandLine(t *testing.T) {
	addr := newCluster().serve(t)
	transcript(t, "policies_history", 0, "policies", "history", "--addr", addr)
	if code, _, stderr := stint("policies", "history", "-o", "yaml", "--addr", addr); code != 2 {
		t.Errorf("%d %s", code, stderr)
	}
}
