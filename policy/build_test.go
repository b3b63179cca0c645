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
		"p.limits[0]: needs an algorithm":                 func(p *policy.Policy) { p.Limits[0].Limit = limit.Limit{} },
		"p.idempotency_retention: must be more than 0":    func(p *policy.Policy) { p.Retention = 0 },
		"p.idempotency_retention: is more than 292 years": func(p *policy.Policy) { p.Retention = math.MaxInt64 },
		"p.limits[0].quota: 9007199254740993 is more than": func(p *policy.Policy) {
			p.Limits[0].Quota = limit.MaxQuota + 1
		},
		"p.unknown_key: must be allow or deny, not 2":                        func(p *policy.Policy) { p.UnknownKey = 2 },
		"p.limits: must not be empty":                                        func(p *policy.Policy) { p.Limits = nil },
		"p.on_expire: must be cancel or commit, not 3":                       func(p *policy.Policy) { p.OnExpire = 3 },
		"p.on_change: must be as_is, proportional, additive or reset, not 4": func(p *policy.Policy) { p.OnChange = 4 },
		"p.parent: there is no policy q":                                     func(p *policy.Policy) { p.Parent = "q" },
		"p.lockout.base: must be more than 0, not 0s": func(p *policy.Policy) {
			p.Lockout = &policy.Lockout{After: 1, Factor: 1}
		},
		"p.lockout.max: must be at least 1us and at most": func(p *policy.Policy) {
			p.Lockout = &policy.Lockout{After: 1, Base: 1, Factor: 1, Max: limit.MaxPeriod + 1, ForgiveAfter: 1}
		},
		"p.limits[0].calendar.time_zone": func(p *policy.Policy) {
			p.Limits[0].Limit = limit.Limit{Algorithm: limit.Calendar, Quota: 1,
				Cycle: &limit.Cycle{Unit: limit.Day, Every: 1}}
		},
		"p.limits[0]: needs an algorithm, one of": func(p *policy.Policy) {
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
	if _, err := policy.Build([]*policy.Policy{valid(), valid()}); err == nil ||
		!strings.Contains(err.Error(), "p: is there twice") {
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
		set, err := policy.Parse("", fmt.Appendf(nil, "policies: {p: {headers: [ietf, %s], limits: [{name: month, "+
			"quota: 5, lifetime: {}}]}}", style))
		if err != nil {
			t.Fatal(err)
		}
		if field, problem := set.Mistake(); !strings.HasPrefix(problem, want) || (want == "") != (problem == "") ||
			(want != "" && field != "policies.p.headers") {
			t.Errorf("%s: %s: %s", style, field, problem)
		}
		if text := string(policy.Format(set)); want == "" &&
			!strings.Contains(text, "headers: [ietf, x-quota: month]\n") {
			t.Errorf("%s is written as\n%s", style, text)
		}
	}
}

// A limit says deny or challenge, and nothing else.
func TestOnExceededIsDenyOrChallenge(t *testing.T) {
	text := "policies: {p: {limits: [{name: a, quota: 5, lifetime: {}, on_exceeded: %s}]}}"
	for word, want := range map[string]policy.OnExceeded{"deny": policy.ExceededDeny,
		"challenge": policy.ExceededChallenge} {
		set, err := policy.Parse("", fmt.Appendf(nil, text, word))
		if err != nil {
			t.Fatal(err)
		}
		if p, _ := set.Lookup("p"); p.Limits[0].OnExceeded != want {
			t.Errorf("%s is read as %d", word, p.Limits[0].OnExceeded)
		}
	}
	if _, err := policy.Parse("", fmt.Appendf(nil, text, "soft")); err == nil ||
		!strings.Contains(err.Error(), "deny or challenge") {
		t.Error(err)
	}
}
