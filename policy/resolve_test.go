package policy_test

import (
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The numbers of an API with five plans.
func TestTiersOfTheRegulatoryAPI(t *testing.T) {
	p, ok := policy.Dev().Lookup("api")
	if !ok {
		t.Fatal("the development policies have no api")
	}
	for _, tt := range []struct {
		tier                        string
		perSecond, bucket, dayQuota uint64
	}{
		{"", 2, 5, 200}, // free is the default
		{"free", 2, 5, 200},
		{"researcher", 10, 30, 5_000},
		{"compliance", 50, 200, 100_000},
		{"vendor", 200, 1_000, 1_000_000},
	} {
		limits, ok := p.Resolve(tt.tier)
		if !ok {
			t.Fatalf("there is no tier %q", tt.tier)
		}
		burst := limit.Limit{Algorithm: limit.TokenBucket, Quota: tt.bucket, Count: tt.perSecond, Period: 1_000_000,
			Initial: tt.bucket}
		daily := limit.Limit{Algorithm: limit.SlidingBuckets, Quota: tt.dayQuota, Period: 86_400_000_000,
			Bucket: 60_000_000}
		if limits[0].Limit != burst || limits[1].Limit != daily {
			t.Errorf("tier %q: got %+v, want %+v and %+v", tt.tier, limits, burst, daily)
		}
	}
}

// An unlimited tier lifts every limit, but each limit still counts by its own algorithm and numbers.
func TestUnlimitedTier(t *testing.T) {
	p, _ := policy.Dev().Lookup("api")
	limits, ok := p.Resolve("internal")
	if !ok || len(limits) != 2 {
		t.Fatalf("got %+v, %v", limits, ok)
	}
	for i, name := range []string{"burst", "daily"} {
		if limits[i].Name != name || !limits[i].Unlimited || limits[i].Limit != p.Limits[i].Limit {
			t.Errorf("limits[%d] is %+v", i, limits[i])
		}
		if p.Limits[i].Unlimited {
			t.Errorf("the tier lifts %s of the policy itself", name)
		}
	}
}

func TestResolve(t *testing.T) {
	p, _ := policy.Dev().Lookup("login")
	if limits, ok := p.Resolve(""); !ok || limits[0].Quota != 5 || limits[1].Quota != 100 {
		t.Errorf("a policy without tiers resolves to %+v, %v", limits, ok)
	}
	if limits, ok := p.Resolve("gold"); ok {
		t.Errorf("an unknown tier resolves to %+v", limits)
	}
	if n := testing.AllocsPerRun(100, func() { p.Resolve("") }); n != 0 {
		t.Errorf("Resolve allocates %v times", n)
	}
}

// In a policy with a default tier, the policy's own numbers are only the base of the tiers.
func TestDefaultTier(t *testing.T) {
	set, err := policy.Parse("f", []byte(`
policies:
  p:
    limits: [{name: a, quota: 5, lifetime: {}}, {name: b, quota: 6, lifetime: {}}]
    tiers: {small: {a: {quota: 1}}, empty: {}}
    default_tier: small
`))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := set.Lookup("p")
	for tier, want := range map[string][2]uint64{"": {1, 6}, "small": {1, 6}, "empty": {5, 6}} {
		if limits, ok := p.Resolve(tier); !ok || limits[0].Quota != want[0] || limits[1].Quota != want[1] {
			t.Errorf("tier %q: got %+v, %v, want the quotas %v", tier, limits, ok, want)
		}
	}
}

// The development policies match the design; the login policy has its ladder.
func TestDevPolicies(t *testing.T) {
	const second = limit.Span(1_000_000)
	login, _ := policy.Dev().Lookup("login")
	want := policy.Lockout{After: 3, Base: second, Factor: 2, Max: 3600 * second, ForgiveAfter: 24 * 3600 * second}
	if login.Lockout == nil || *login.Lockout != want || login.OnExpire != policy.OnExpireCommit || !login.Security {
		t.Errorf("login is %+v", login)
	}
	for _, name := range policy.Dev().Names() {
		if p, _ := policy.Dev().Lookup(name); len(p.Warnings()) > 0 {
			t.Errorf("they are no example: %q", p.Warnings())
		}
	}
	if names := strings.Join(policy.Dev().Names(), " "); names != "api login per-ip" {
		t.Errorf("got %s", names)
	}
}

const lockedOut = "limits: [{name: m, quota: 5, sliding_log: {period: 60s}}]\n    lockout: {after: 3, base: 1s}\n    "

// Twice the quota around the edge defeats a tight limit of a security policy.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // part of the only warning; "": no warning
	}{
		{"limits: [{name: m, quota: 19, fixed_window: {period: 60s}}]",
			"p.limits[m]: is a fixed window of 19 per 1m0s"},
		{"limits: [{name: m, quota: 20, fixed_window: {period: 60s}}]", ""},
		{"limits: [{name: m, quota: 20, fixed_window: {period: 1h}}]", ""},
		{"limits: [{name: d, quota: 20, fixed_window: {period: 61m}}]",
			"p.limits[d]: is a fixed window of 20 per 1h1m0s"},
		{"limits: [{name: m, quota: 5, fixed_window: {period: 60s, anchor: first_hit}}]", "use sliding_log"},
		{"limits: [{name: m, quota: 99, fixed_window: {period: 60s}}]\n    " +
			"tiers: {small: {m: {quota: 3}}, all: {unlimited: true}}", "window of 3 per"},
		{"limits: [{name: m, quota: 5, sliding_log: {period: 60s}}]", ""},
		{"limits: [{name: m, quota: 20, calendar: {unit: day}}]", "p.limits[m]: is a calendar quota of 20 per day"},
		{"limits: [{name: m, quota: 19, calendar: {unit: minute, every: 5}}]", "calendar quota of 19 per 5 minutes"},
		{"limits: [{name: m, quota: 20, calendar: {unit: hour}}]", ""},
		{"limits: [{name: m, quota: 1, concurrency: {}}]", ""},
		{lockedOut + "on_expire: cancel", "p.on_expire: an attempt whose hold expires is given back"},
		{lockedOut + "reason: no", "use on_expire: commit"},
		{lockedOut + "on_expire: commit", ""},
		{"limits: [{name: m, quota: 5, sliding_log: {period: 60s}}]\n    on_expire: cancel", ""},
	} {
		for _, security := range []string{"true", "false"} {
			set, err := policy.Parse("f", []byte("policies:\n  p:\n    security: "+security+"\n    "+tt.text))
			if err != nil {
				t.Fatal(err)
			}
			p, _ := set.Lookup("p")
			warnings := p.Warnings()
			switch want := tt.want; {
			case (security == "false" || want == "") && len(warnings) != 0:
				t.Errorf("security %s, %s: got %q", security, tt.text, warnings)
			case security == "true" && want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], want)):
				t.Errorf("%s: got %q, want %q", tt.text, warnings, want)
			}
		}
	}
}
