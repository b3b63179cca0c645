package api

import (
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// deniedBySoft is a denial by a soft limit, and with hard by another one as well.
func deniedBySoft(hard bool) *shard.Decision {
	return &shard.Decision{RetryAfter: 5e6, Limits: []shard.LimitStatus{
		{Policy: "login", Key: "k", Limit: "challenge", Quota: 3, Soft: true,
			Verdict: limit.Verdict{Used: 3, RetryAfter: 5e6}},
		{Policy: "login", Key: "k", Limit: "account", Quota: 10,
			Verdict: limit.Verdict{Used: 3, Remaining: 7, Allowed: !hard}}}}
}

func TestAChallengeIsAnOutcomeOfItsOwn(t *testing.T) {
	check := &shard.Request{Op: shard.Check}
	for _, c := range []struct {
		d            *shard.Decision
		outcome      stintv1.Outcome
		name, starts string
	}{
		{&shard.Decision{Allowed: true}, stintv1.Outcome_OUTCOME_ALLOWED, "allowed", "Allowed."},
		{&shard.Decision{Allowed: true, Age: 2_000_000}, stintv1.Outcome_OUTCOME_ALLOWED, "allowed_leased",
			"Allowed from a lease of 2s ago"},
		{deniedBySoft(true), stintv1.Outcome_OUTCOME_DENIED, "denied", "Denied, and nothing was counted."},
		{deniedBySoft(false), stintv1.Outcome_OUTCOME_CHALLENGE, "challenged", "Challenged, and nothing was counted"},
	} {
		m := decisionOf(c.d)
		if m.Outcome != c.outcome || m.Allowed != c.d.Allowed {
			t.Errorf("%s: outcome %v, allowed %v", c.name, m.Outcome, m.Allowed)
		}
		if got := decisions.Outcome(check, c.d); got != c.name {
			t.Errorf("metric outcome %q, want %q", got, c.name)
		}
		if text := explainDecision(policy.NewSet(nil), check, c.d); !strings.HasPrefix(text, c.starts) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	m := decisionOf(deniedBySoft(false))
	if !m.Limits[0].Soft || m.Limits[1].Soft || len(m.DeniedBy) != 1 || m.DeniedBy[0] != "login/challenge" {
		t.Errorf("%+v", m)
	}
	p := &policy.Policy{Name: "login", Reason: "Too many.",
		Limits: []policy.Limit{{Name: "challenge", Reason: "A robot?"}, {Name: "account"}}}
	named := &shard.Request{Op: shard.Check, Entries: []shard.Entry{{Policy: "login", Key: "k", Cost: 1}}}
	for hard, want := range map[bool]string{false: "A robot?", true: "Too many."} {
		if got := decisions.Reason(policy.NewSet([]*policy.Policy{p}), named, deniedBySoft(hard)); got != want {
			t.Errorf("the reason is %q, want %q", got, want)
		}
		p = &policy.Policy{Name: p.Name, Reason: p.Reason, Limits: p.Limits}
	}
	old := deniedBySoft(false)
	old.Age = 1e6
	if text := explainDecision(policy.NewSet(nil), check, old); !strings.HasPrefix(text, "Challenged 1s ago") ||
		decisions.Outcome(check, old) != "denied_cached" {
		t.Errorf("repeated: %q", text)
	}
}

// The limits that a request brings along are hard: older nodes would count them without the word.
func TestALimitOfARequestIsNotSoft(t *testing.T) {
	quota := uint64(1)
	m := &stintv1.Entry{Key: "k",
		Limits: []*stintv1.Limit{{Name: "a", Quota: &quota, OnExceeded: stintv1.OnExceeded_ON_EXCEEDED_CHALLENGE,
			Algorithm: &stintv1.Limit_Lifetime{Lifetime: &stintv1.Lifetime{}}}}}
	if _, err := entryOf(0, m); err == nil || !strings.Contains(err.Error(), "limits[0].on_exceeded") {
		t.Error(err)
	}
}
