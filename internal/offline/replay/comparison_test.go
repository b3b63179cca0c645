package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func compare(t *testing.T, log, before, after string, plan Plan) *Comparison {
	t.Helper()
	events, err := Open("log", strings.NewReader(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compare(events, mustParse(t, before), mustParse(t, after), plan)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// policyP is a policy p with a quota of hits in 10 s.
func policyP(quota int) string {
	return fmt.Sprintf("policies: {p: {limits: [{name: a, quota: %d, sliding_log: {period: 10s}}]}}", quota)
}

// Each side has its own state: events that the new policy denies are not counted there, so later it may admit what the
// old one denies.
func TestCompareCountsEachSideAlone(t *testing.T) {
	before := "policies: {p: {limits: [{name: a, quota: 3, fixed_window: {period: 10s}}]}}"
	after := "policies: {p: {limits: [{name: a, quota: 2, fixed_window: {period: 4s}}]}}"
	c := compare(t, "time,key\n0,k\n1,k\n2,k\n5,k\n5,j\n", before, after, Plan{})
	want := PolicyComparison{Policy: "p", Events: 5, DeniedBefore: 1, DeniedAfter: 1, NewlyDenied: 1,
		NewlyDeniedKeys: 1, NewlyAdmitted: 1, NewlyAdmittedKeys: 1}
	if len(c.Policies) != 1 || c.Policies[0] != want {
		t.Errorf("got %+v, want %+v", c.Policies, want)
	}
	if len(c.TopNewlyDenied) != 1 || len(c.TopNewlyAdmitted) != 1 {
		t.Fatalf("got %+v", c)
	}
	k := c.TopNewlyDenied[0]
	if k.Key != "k" || k.Events != 4 || k.DeniedBefore != 1 || k.DeniedAfter != 1 || k.NewlyDenied != 1 ||
		k.NewlyAdmitted != 1 || k.FirstNewlyDenied.Line != 4 || !k.FirstNewlyDenied.Time.Equal(clock(2_000_000)) ||
		k.FirstNewlyAdmitted.Line != 5 || !k.FirstNewlyAdmitted.Time.Equal(clock(5_000_000)) {
		t.Errorf("got %+v, first %v and %v", k, k.FirstNewlyDenied, k.FirstNewlyAdmitted)
	}
}

func TestCompareWithItselfFindsNothing(t *testing.T) {
	c := compare(t, "time,key\n0,k\n1,k\n2,k\n1,j\n", threePolicies, threePolicies, Plan{})
	if len(c.Policies) != 3 || len(c.Added)+len(c.Removed)+len(c.TopNewlyDenied)+len(c.TopNewlyAdmitted) > 0 ||
		c.OutOfOrder != 1 {
		t.Errorf("got %+v", c)
	}
	for _, p := range c.Policies {
		if p.NewlyDenied+p.NewlyAdmitted > 0 || p.DeniedBefore != p.DeniedAfter || p.Events != 4 {
			t.Errorf("got %+v", p)
		}
	}
}

// Lifting a shadow is a change like any other.
func TestCompareLiftsAShadow(t *testing.T) {
	dark := strings.Replace(policyP(1), "{p: {", "{p: {shadow: true, ", 1)
	c := compare(t, "time,key\n0,k\n1,k\n", dark, policyP(1), Plan{})
	if c.Policies[0].DeniedBefore != 0 || c.Policies[0].NewlyDenied != 1 {
		t.Errorf("got %+v", c.Policies[0])
	}
}

// A replay climbs the ladder only where denials are violations.
func TestCompareWithALockout(t *testing.T) {
	const log = "time,key\n0,k\n1,k\n11,k\n"
	ladder := func(more string) string {
		return strings.Replace(policyP(1), "{p: {", "{p: {lockout: {after: 1, base: 1h"+more+"}, ", 1)
	}
	if c := compare(t, log, policyP(1), ladder(""), Plan{}); c.Policies[0].NewlyDenied != 0 {
		t.Errorf("a mere denial led to a block: %+v", c.Policies[0])
	}
	counted := strings.Replace(ladder(", on_denied: true"), "{p: {", "{p: {count_denied: true, ", 1)
	if c := compare(t, log, policyP(1), counted, Plan{}); c.Policies[0].NewlyDenied != 1 {
		t.Errorf("a denial that is a violation led to no block: %+v", c.Policies[0])
	}
}

// Policies that only one file contains are listed, but not run.
func TestCompareListsWhatIsAddedAndRemoved(t *testing.T) {
	c := compare(t, "time,key\n0,k\n", threePolicies, strings.NewReplacer("two:", "deux:").Replace(threePolicies),
		Plan{})
	if fmt.Sprint(c.Added, c.Removed) != "[deux] [two]" || len(c.Policies) != 2 {
		t.Errorf("got %+v", c)
	}
	c = compare(t, "time,key\n0,k\n", threePolicies, policyP(1), Plan{Policies: []string{"p"}})
	if fmt.Sprint(c.Added, c.Removed) != "[p] []" || len(c.Policies) != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestCompareErrors(t *testing.T) {
	for _, tt := range []struct {
		plan      Plan
		log, want string
	}{
		{Plan{Policies: []string{"three"}}, "time,key\n", "the policies before: there is no policy three: " +
			"known are dark, one, two"},
		{Plan{Policies: []string{"two"}, Tier: "all"}, "time,key\n",
			"the policies after: policy two has no tier all: known are big"},
		{Plan{}, "time,key\nx,a\n", "log:2: time: "},
	} {
		events, err := Open("log", strings.NewReader(tt.log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		after := mustParse(t, strings.Replace(threePolicies, ", all: {unlimited: true}", "", 1))
		if _, err := Compare(events, mustParse(t, threePolicies), after, tt.plan); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// Programs read these names.
func TestComparisonAsJSON(t *testing.T) {
	got, err := json.Marshal(compare(t, "time,key\n0,k\n0.5,k\n", policyP(2), policyP(1), Plan{}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"format":"csv","outOfOrder":0,"lines":3,"events":2,"skipped":1,"unreadable":0,"inFuture":0,"added":[],` +
		`"removed":[],"policies":[{"policy":"p","events":2,` +
		`"deniedBefore":0,"deniedAfter":1,"newlyDenied":1,"newlyDeniedKeys":1,"newlyAdmitted":0,` +
		`"newlyAdmittedKeys":0}],` +
		`"topNewlyDenied":[{"policy":"p","key":"k","events":2,"deniedBefore":0,"deniedAfter":1,"newlyDenied":1,` +
		`"newlyAdmitted":0,` +
		`"firstNewlyDenied":{"time":"1970-01-01T00:00:00.5Z","line":3}}],"topNewlyAdmitted":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The totals cover all keys; the lists name twenty, those with the most events first.
func TestComparisonNamesTwentyKeys(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,key\n")
	for key := range 25 {
		for range 2 + min(key, 22) {
			fmt.Fprintf(&log, "1,k%02d\n", key)
		}
	}
	c := compare(t, log.String(), policyP(100), policyP(1), Plan{})
	if p := c.Policies[0]; p.NewlyDeniedKeys != 25 || p.NewlyDenied != p.Events-25 {
		t.Errorf("got %+v", p)
	}
	if top := c.TopNewlyDenied; len(top) != 20 || top[0].Key != "k22" || top[1].Key != "k23" || top[19].Key != "k05" {
		t.Errorf("got %+v", top)
	}
	var text strings.Builder
	if err := c.WriteText(&text); err != nil || !strings.Contains(text.String(), "\nand 5 more\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}
