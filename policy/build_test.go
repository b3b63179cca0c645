package policy_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Values that a file cannot express are refused like invalid values that it can.
func TestBuildRefusesWhatAFileCannotSay(t *testing.T) {
	valid := func() *policy.Policy {
		return &policy.Policy{Name: "p", Retention: policy.DefaultRetention, Limits: []policy.Limit{
			{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}}
	}
	if _, err := policy.Build([]*policy.Policy{valid()}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*policy.Policy){
		"p.limits[0]: needs an algorithm":                  func(p *policy.Policy) { p.Limits[0].Limit = limit.Limit{} },
		"p.idempotency_retention: must be more than 0":     func(p *policy.Policy) { p.Retention = 0 },
		"p.idempotency_retention: must be more than 0 and": func(p *policy.Policy) { p.Retention = math.MaxInt64 },
		"p.limits[0].quota: 9007199254740993 is more than": func(p *policy.Policy) { p.Limits[0].Quota = limit.MaxQuota + 1 },
		"p.unknown_key: 2 is none":                         func(p *policy.Policy) { p.UnknownKey = 2 },
		"p.limits: must not be empty":                      func(p *policy.Policy) { p.Limits = nil },
		"p.on_expire: 3 is none":                           func(p *policy.Policy) { p.OnExpire = 3 },
		"p.on_change: 4 is none":                           func(p *policy.Policy) { p.OnChange = 4 },
		"p.parent: there is no policy q":                   func(p *policy.Policy) { p.Parent = "q" },
		"p.lockout.base: must be at least 1us":             func(p *policy.Policy) { p.Lockout = &policy.Lockout{After: 1, Factor: 1} },
		"p.lockout.max: must be at least 1us and at most": func(p *policy.Policy) {
			p.Lockout = &policy.Lockout{After: 1, Base: 1, Factor: 1, Max: limit.MaxPeriod + 1, ForgiveAfter: 1}
		},
		"p.limits[0].calendar.time_zone": func(p *policy.Policy) {
			p.Limits[0].Limit = limit.Limit{Algorithm: limit.Calendar, Quota: 1, Cycle: &limit.Cycle{Unit: limit.Day, Every: 1}}
		},
		"p.limits[0].calendar.unit": func(p *policy.Policy) {
			p.Limits[0].Limit = limit.Limit{Algorithm: limit.Calendar, Quota: 1}
		},
		`"P Q": is no name`: func(p *policy.Policy) { p.Name = "P Q" },
	} {
		p := valid()
		change(p)
		_, err := policy.Build([]*policy.Policy{p})
		var parse *policy.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := policy.Build([]*policy.Policy{valid(), valid()}); err == nil || !strings.Contains(err.Error(), "p: is there twice") {
		t.Errorf("two of one name: %v", err)
	}
}

// A set that could be built but not read again would be lost at a restart.
func TestBuildRefusesWhatIsTooLargeForAFile(t *testing.T) {
	var many []*policy.Policy
	for i := range 3000 {
		many = append(many, &policy.Policy{Name: fmt.Sprintf("policy-%d", i), Reason: strings.Repeat("x", 400),
			Retention: policy.DefaultRetention,
			Limits:    []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}})
	}
	if _, err := policy.Build(many); err == nil || !strings.Contains(err.Error(), "at most 1048576 are read") {
		t.Errorf("got %v", err)
	}
}

// Holds of a policy without on_expire are given back.
func TestBuildFillsOnExpireIn(t *testing.T) {
	set, err := policy.Build([]*policy.Policy{{Name: "p", Retention: policy.DefaultRetention,
		Limits: []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Concurrency, Quota: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := set.Lookup("p"); p.OnExpire != policy.OnExpireCancel {
		t.Errorf("on_expire is %d", p.OnExpire)
	}
}

// NewerThanSound must report what a node without backups cannot read.
func TestOnRecoveryIsNewerThanSound(t *testing.T) {
	text := "policies: {p: {limits: [{name: a, quota: 5, lifetime: {}}, {name: b, quota: 5, lifetime: {}%s}]}}"
	for more, want := range map[string]string{"": "", ", on_recovery: full": "", ", on_recovery: keep": "p.limits[b].on_recovery"} {
		set, err := policy.Parse("", fmt.Appendf(nil, text, more))
		if err != nil {
			t.Fatal(err)
		}
		if got := set.NewerThanSound(); got != want || set.Newer() != want {
			t.Errorf("%q: %q", more, got)
		}
	}
}

// A cap is read by nodes at shard.LevelTrust only.
func TestWhatOlderNodesCannotReadIsFound(t *testing.T) {
	p := &policy.Policy{Name: "p", Retention: policy.DefaultRetention, MaxKeys: 5, Limits: []policy.Limit{
		{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}}
	set, err := policy.Build([]*policy.Policy{p})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.NewerThanSound(); got != "p.max_keys" {
		t.Errorf("%q", got)
	}
}

// A soft limit is read by nodes at shard.LevelNotify only; a limit that says what it is anyhow is none.
func TestASoftLimitIsNewerThanBill(t *testing.T) {
	text := "policies: {p: {limits: [{name: a, quota: 5, lifetime: {}}, {name: b, quota: 5, lifetime: {}%s}]}}"
	for more, want := range map[string]string{"": "", ", on_exceeded: deny": "", ", on_exceeded: challenge": "p.limits[b].on_exceeded"} {
		set, err := policy.Parse("", fmt.Appendf(nil, text, more))
		if err != nil {
			t.Fatal(err)
		}
		if got := set.NewerThanBill(); got != want || set.NewerThanTrust() != want || set.Newer() != want {
			t.Errorf("%q: %q", more, got)
		}
	}
	if _, err := policy.Parse("", fmt.Appendf(nil, text, ", on_exceeded: soft")); err == nil || !strings.Contains(err.Error(), "deny or challenge") {
		t.Error(err)
	}
}

// The styles of earlier releases are read by every node, the others from shard.LevelTrust on.
func TestOlderNodesReadOlderStyles(t *testing.T) {
	for styles, want := range map[string]string{
		"ietf, x-ratelimit, x-quota": "",
		"ietf, x-ratelimit-delta":    "p.headers[1]",
		"x-ratelimit-github":         "p.headers[0]",
		"x-ratelimit, x-quota: a":    "p.headers[1]",
	} {
		set, err := policy.Parse("", fmt.Appendf(nil, "policies: {p: {headers: [%s], limits: [{name: a, quota: 5, lifetime: {}}]}}", styles))
		if err != nil {
			t.Fatal(err)
		}
		if sound, first := set.NewerThanSound(), set.Newer(); sound != want || first != want {
			t.Errorf("%s: %q and %q, want %q", styles, sound, first, want)
		}
	}
}

// An x-quota shows one limit, and it must be there when the policies are applied.
func TestXQuotaNamesALimit(t *testing.T) {
	for style, want := range map[string]string{
		"x-quota":          "x-quota shows the limit named daily",
		"x-quota: monthly": "x-quota shows the limit named monthly",
		"{x-quota: month}": "",
		"x-quota: month":   "",
		"'x-quota: month'": "",
		`x-quota: "month"`: "",
	} {
		set, err := policy.Parse("", fmt.Appendf(nil, "policies: {p: {headers: [ietf, %s], limits: [{name: month, quota: 5, lifetime: {}}]}}", style))
		if err != nil {
			t.Fatal(err)
		}
		if field, problem := set.Mistake(); !strings.HasPrefix(problem, want) || (want == "") != (problem == "") || (want != "" && field != "policies.p.headers") {
			t.Errorf("%s: %s: %s", style, field, problem)
		}
		if text := string(policy.Format(set)); want == "" && !strings.Contains(text, "headers: [ietf, x-quota: month]\n") {
			t.Errorf("%s is written as\n%s", style, text)
		}
	}
}

// Newer must report a set that an earlier release cannot read.
func TestNewerNamesWhatAnEarlierReleaseCannotRead(t *testing.T) {
	zero := uint64(0)
	for want, change := range map[string]func(p *policy.Policy){
		"":              func(*policy.Policy) {},
		"p.unknown_key": func(p *policy.Policy) { p.UnknownKey = policy.UnknownKeyDeny },
		"p.max_keys":    func(p *policy.Policy) { p.MaxKeys = 1 },
		"p.meter": func(p *policy.Policy) {
			p.Meter = &policy.Meter{Name: "calls", Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone("UTC")},
				Retain: policy.MeterRetain, Grace: policy.MeterGrace}
		},
		"p.notify":               func(p *policy.Policy) { p.Notify = []string{"billing"} },
		"p.limits[a].thresholds": func(p *policy.Policy) { p.Limits[0].Thresholds = []policy.Threshold{{Units: 1}} },
		"p.headers[1]":           func(p *policy.Policy) { p.Headers = []string{"ietf", "x-ratelimit-delta"} },
		"p.headers[0]":           func(p *policy.Policy) { p.Headers = []string{"x-quota: a", "x-ratelimit"} },
		"p.limits[a].reason":     func(p *policy.Policy) { p.Limits[0].Reason = "no" },
		"p.limits[a].quota":      func(p *policy.Policy) { p.Limits[0].Quota = 0 },
		"p.tiers.free.a.quota": func(p *policy.Policy) {
			p.Tiers = map[string]policy.Tier{"free": {Limits: map[string]policy.TierLimit{"a": {Quota: &zero}}}}
		},
	} {
		p := &policy.Policy{Name: "p", Retention: policy.DefaultRetention, Limits: []policy.Limit{
			{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}}
		change(p)
		set, err := policy.Build([]*policy.Policy{p})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Newer(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
