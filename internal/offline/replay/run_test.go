package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

func mustParse(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func replay(t *testing.T, log, policies string, plan Plan) *Report {
	t.Helper()
	events, err := Open("log", strings.NewReader(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(events, mustParse(t, policies), plan)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

const threePolicies = `
policies:
  two: {limits: [{name: a, quota: 2, sliding_log: {period: 10s}}], tiers: {big: {a: {quota: 3}}, all: {unlimited: true}}}
  one: {limits: [{name: a, quota: 1, sliding_log: {period: 10s}}], tiers: {big: {}}}
  dark: {shadow: true, limits: [{name: a, quota: 1, sliding_log: {period: 10s}}]}
`

// Every policy runs alone: one may admit what another denies.
func TestPoliciesRunAlone(t *testing.T) {
	log := "time,key\n0,k\n1,k\n2,k\n2,j\n"
	for _, tt := range []struct {
		plan Plan
		want string // policy: events admitted denied in shadow
	}{
		{Plan{}, "dark: 4 4 0 2; one: 4 2 2 0; two: 4 3 1 0; "},
		{Plan{Policies: []string{"two"}}, "two: 4 3 1 0; "},
		{Plan{Policies: []string{"two", "one"}, Tier: "big"}, "two: 4 4 0 0; one: 4 2 2 0; "},
		{Plan{Policies: []string{"two"}, Tier: "all"}, "two: 4 4 0 0; "},
	} {
		got := ""
		for _, p := range replay(t, log, threePolicies, tt.plan).Policies {
			got += fmt.Sprintf("%s: %d %d %d %d; ", p.Policy, p.Events, p.Admitted, p.Denied, p.ShadowDenied)
		}
		if got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.plan, got, tt.want)
		}
	}
}

// The hit at 0 leaves a window of 10 s at 10 exactly, not a microsecond before.
func TestEventsAreDecidedAtTheirOwnTime(t *testing.T) {
	for last, admitted := range map[string]uint64{"9.999999": 1, "10": 2, "10.000001": 2} {
		report := replay(t, "time,key\n0,k\n"+last+",k\n", threePolicies, Plan{Policies: []string{"one"}})
		if got := report.Policies[0].Admitted; got != admitted {
			t.Errorf("a second hit at %s: %d admitted, want %d", last, got, admitted)
		}
	}
}

// The event at 3 is decided at 12, so the window that 12 opened denies it; the log is not sorted.
func TestTimeNeverRunsBackwards(t *testing.T) {
	report := replay(t, "time,key\n0,k\n12,k\n3,k\n3,j\n12,i\n", threePolicies, Plan{Policies: []string{"one"}})
	p := report.Policies[0]
	if report.OutOfOrder != 2 || p.Admitted != 4 || p.Denied != 1 || clock(12_000_000) != p.FirstDenial.Time ||
		p.FirstDenial.Line != 4 {
		t.Errorf("%d out of order, %+v, first denial %+v", report.OutOfOrder, p, p.FirstDenial)
	}
}

func TestRunErrors(t *testing.T) {
	for _, tt := range []struct {
		plan      Plan
		log, want string
	}{
		{Plan{Policies: []string{"three"}}, "time,key\n", "there is no policy three: known are dark, one, two"},
		{Plan{Tier: "big"}, "time,key\n", "policy dark has no tiers: try it without one"},
		{Plan{Policies: []string{"two"}, Tier: "gold"}, "time,key\n",
			"policy two has no tier gold: known are all, big"},
		{Plan{}, "time,key\nx,a\n", "log:2: time: "},
	} {
		events, err := Open("log", strings.NewReader(tt.log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(events, mustParse(t, threePolicies), tt.plan); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// Programs read these names.
func TestReportAsJSON(t *testing.T) {
	report := replay(t, "time,key\n0,k\n0.5,k\n", threePolicies, Plan{Policies: []string{"one"}})
	got, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"format":"csv","outOfOrder":0,"lines":3,"events":2,"skipped":1,"unreadable":0,"inFuture":0,` +
		`"policies":[{"policy":"one","events":2,"admitted":1,"denied":1,` +
		`"shadowDenied":0,"deniedBy":[{"limit":"a","denied":1}],` +
		`"firstDenial":{"time":"1970-01-01T00:00:00.5Z","key":"k","line":3},"topDenied":[{"key":"k","denied":1}],` +
		`"timeline":{"start":"1970-01-01T00:00:00Z","widthMillis":10,"columns":[{"admitted":1,"denied":0},` +
		strings.Repeat(`{"admitted":0,"denied":0},`, 49) + `{"admitted":0,"denied":1}]}}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTopDenied(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,key\n")
	for key := range 12 {
		for range 2 + min(key, 10) {
			fmt.Fprintf(&log, "1,k%02d\n", key)
		}
	}
	top := replay(t, log.String(), threePolicies, Plan{Policies: []string{"one"}}).Policies[0].TopDenied
	if len(top) != 10 || top[0] != (KeyDenials{"k10", 11}) || top[1] != (KeyDenials{"k11", 11}) ||
		top[9] != (KeyDenials{"k02", 3}) {
		t.Errorf("got %v", top)
	}
}

// Memory grows with the number of keys that are live at one time, not with the length of the log.
func TestDeadRecordsAreForgotten(t *testing.T) {
	l, err := newPolicyRun(mustParse(t, threePolicies), "one", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50_000 {
		event := Event{At: limit.Time(i) * 100_000, Key: fmt.Sprint(i), Cost: 1}
		if _, err := l.decide(event, event.At); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.records.byKey); n > 3*sweepLeast {
		t.Errorf("%d records are kept of 100 live keys", n)
	}
}

// A ban denies everything, and no key of a log is unknown: a log does not say which keys have an override.
func TestBansAndUnknownKeysInAReplay(t *testing.T) {
	const policies = `
policies:
  ban: {limits: [{name: a, quota: 0, lifetime: {}}]}
  known: {unknown_key: deny, limits: [{name: a, quota: 1, lifetime: {}}]}
`
	got := ""
	for _, p := range replay(t, "time,key\n0,k\n1,k\n2,j\n", policies, Plan{}).Policies {
		got += fmt.Sprintf("%s: %d %d %d; ", p.Policy, p.Events, p.Admitted, p.Denied)
	}
	if want := "ban: 3 0 3; known: 3 2 1; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
