package policy_test

import (
	"reflect"
	"testing"

	"github.com/stint-io/stint/policy"
)

const overriddenPolicies = `
policies:
  p:
    limits:
      - {name: burst, quota: 10, token_bucket: {refill: 2, per: 1s}}
      - {name: half, quota: 10, token_bucket: {refill: 2, per: 1s, initial: 5}}
      - {name: rate, quota: 7, gcra: {rate: 3, per: 1s}}
      - {name: day, quota: 100, calendar: {unit: day, time_zone: America/New_York}}
      - {name: free, unlimited: {}}
    tiers:
      small: {burst: {quota: 5, refill: 1}, half: {quota: 5}}
      gold: {day: {quota: 1000}, rate: {rate: 30}}
      internal: {unlimited: true}
    default_tier: small
`

func number(n uint64) *uint64 { return &n }

func overridden(t *testing.T) *policy.Policy {
	t.Helper()
	p, _ := parsed(t, overriddenPolicies).Lookup("p")
	return p
}

// quotas returns quota, count and initial of each limit: the numbers that tiers and overrides change.
func quotas(limits []policy.Limit) (numbers [][3]uint64) {
	for _, l := range limits {
		numbers = append(numbers, [3]uint64{l.Quota, l.Count, l.Initial})
	}
	return numbers
}

func TestResolveForWithoutOverrideIsResolve(t *testing.T) {
	p := overridden(t)
	for _, tier := range []string{"", "small", "gold", "internal", "none"} {
		want, wantOK := p.Resolve(tier)
		for _, o := range []*policy.Override{nil, {}, {Expires: 5}} {
			got, ok := p.ResolveFor(tier, o)
			if ok != wantOK || !reflect.DeepEqual(got, want) {
				t.Errorf("tier %q, override %v: %v, %+v, want %v, %+v", tier, o, ok, got, wantOK, want)
			}
		}
	}
	for _, o := range []*policy.Override{nil, {Tier: "gold"}} {
		if n := testing.AllocsPerRun(100, func() { p.ResolveFor("", o) }); n != 0 {
			t.Errorf("override %v: ResolveFor allocates %v times", o, n)
		}
	}
}

// The tier is the request's, else the override's, else the default. The override's numbers apply on top of each.
func TestResolveFor(t *testing.T) {
	p := overridden(t)
	more := map[string]policy.TierLimit{"burst": {Quota: number(50)}, "half": {Quota: number(20)},
		"day": {Quota: number(7)}, "rate": {Rate: number(9)}}
	for _, tt := range []struct {
		name string
		tier string
		o    policy.Override
		want [][3]uint64 // burst, half, rate, day, free
	}{
		{"tier of the override", "", policy.Override{Tier: "gold"},
			[][3]uint64{{10, 2, 10}, {10, 2, 5}, {7, 30, 0}, {1000, 0, 0}, {}}},
		{"tier of the request first", "small", policy.Override{Tier: "gold"},
			[][3]uint64{{5, 1, 5}, {5, 2, 5}, {7, 3, 0}, {100, 0, 0}, {}}},
		{"numbers on the default tier", "", policy.Override{Limits: more},
			[][3]uint64{{50, 1, 50}, {20, 2, 5}, {7, 9, 0}, {7, 0, 0}, {}}},
		{"numbers on the override's tier", "", policy.Override{Tier: "gold", Limits: more},
			[][3]uint64{{50, 2, 50}, {20, 2, 5}, {7, 9, 0}, {7, 0, 0}, {}}},
		{"numbers on the request's tier", "small", policy.Override{Tier: "gold", Limits: more},
			[][3]uint64{{50, 1, 50}, {20, 2, 5}, {7, 9, 0}, {7, 0, 0}, {}}},
		{"a tier that is gone", "", policy.Override{Tier: "platinum"},
			[][3]uint64{{5, 1, 5}, {5, 2, 5}, {7, 3, 0}, {100, 0, 0}, {}}},
		{"a limit that is gone", "", policy.Override{Limits: map[string]policy.TierLimit{"week": {Quota: number(1)}}},
			[][3]uint64{{5, 1, 5}, {5, 2, 5}, {7, 3, 0}, {100, 0, 0}, {}}},
		{"numbers that do not fit any more leave the tier's", "gold",
			policy.Override{Limits: map[string]policy.TierLimit{
				"burst": {Rate: number(5)}, "half": {Quota: number(4)}, "rate": {Quota: number(1 << 60)},
				"day": {Refill: number(1), Quota: number(5)}, "free": {Quota: number(1)}}},
			[][3]uint64{{10, 2, 10}, {10, 2, 5}, {7, 30, 0}, {1000, 0, 0}, {}}},
	} {
		before := quotas(p.Limits)
		limits, ok := p.ResolveFor(tt.tier, &tt.o)
		if got := quotas(limits); !ok || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, ok, got, tt.want)
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Errorf("%s: %s: %v", tt.name, l.Name, err)
			}
		}
		if !reflect.DeepEqual(quotas(p.Limits), before) {
			t.Errorf("%s: the policy itself was changed", tt.name)
		}
	}
	if limits, ok := p.ResolveFor("platinum", &policy.Override{Limits: more}); ok {
		t.Errorf("a tier of the request that is not there resolves to %+v", limits)
	}
	limits, _ := p.ResolveFor("", &policy.Override{Tier: "internal", Limits: more})
	if !limits[0].Unlimited || limits[0].Quota != 50 || limits[3].Quota != 7 || !limits[3].Unlimited {
		t.Errorf("an unlimited tier with numbers is %+v", limits)
	}
	if resolved, _ := p.Resolve("small"); resolved[0].Quota != 5 {
		t.Error("an override changed the tier of everybody")
	}
}

// The overrides that PutOverride refuses, with the field of each message.
func TestOverrideProblem(t *testing.T) {
	p := overridden(t)
	one := func(name string, l policy.TierLimit) policy.Override {
		return policy.Override{Limits: map[string]policy.TierLimit{name: l}}
	}
	for _, tt := range []struct {
		o              policy.Override
		field, problem string
	}{
		{policy.Override{}, "", ""},
		{policy.Override{Tier: "gold"}, "", ""},
		{one("burst", policy.TierLimit{Quota: number(1), Refill: number(1)}), "", ""},
		{one("day", policy.TierLimit{Quota: number(1 << 53)}), "", ""},
		{policy.Override{Tier: "platinum"}, "tier", "the policy has no tier platinum"},
		{policy.Override{Tier: "golf"}, "tier", "the policy has no tier golf: did you mean gold?"},
		{one("week", policy.TierLimit{}), "limits.week", "the policy has no limit week"},
		{one("a b", policy.TierLimit{}), `limits."a b"`, `the policy has no limit "a b"`},
		{one("day", policy.TierLimit{Refill: number(1)}), "limits.day.refill",
			"the limit's algorithm has no such number"},
		{one("burst", policy.TierLimit{Rate: number(1)}), "limits.burst.rate",
			"the limit's algorithm has no such number"},
		{one("free", policy.TierLimit{Quota: number(1)}), "limits.free.quota",
			"the limit's algorithm has no such number"},
		{one("day", policy.TierLimit{Quota: number(0)}), "", ""},
		{one("half", policy.TierLimit{Quota: number(0)}), "", ""},
		{one("day", policy.TierLimit{Quota: number(1<<53 + 1)}), "limits.day.quota",
			"9007199254740993 is more than 9007199254740992"},
		{one("half", policy.TierLimit{Quota: number(4)}), "limits.half", "initial: 5 is more than the quota of 4"},
		{one("rate", policy.TierLimit{Rate: number(0)}), "limits.rate.rate",
			"must be at least 1: nothing would ever come back"},
	} {
		field, problem := p.OverrideProblem(&tt.o)
		if field != tt.field || problem != tt.problem {
			t.Errorf("%+v: %s: %s, want %s: %s", tt.o, field, problem, tt.field, tt.problem)
		}
		if limits, _ := p.ResolveFor("", &tt.o); tt.problem == "" && len(tt.o.Limits) > 0 {
			if resolved, _ := p.Resolve(""); reflect.DeepEqual(limits, resolved) {
				t.Errorf("%+v was accepted and does nothing", tt.o)
			}
		}
	}
}
