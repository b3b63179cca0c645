package api

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// drawnScreen is what a screen of the dashboard has drawn.
type drawnScreen struct {
	Text, Health string
	Bars         []string
}

// drawDashboard draws the screen of an address in Node, from the answers to the procedures that it asks.
func drawDashboard(t *testing.T, address, answers string) (drawn drawnScreen) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: Debian's nodejs has it")
	}
	draw := exec.Command(node, "testdata/dashboard.mjs")
	draw.Stdin = strings.NewReader(`{"hash":"#/` + address + `","answers":{` + answers + `}}`)
	out, err := draw.Output()
	if err == nil {
		err = json.Unmarshal(out, &drawn)
	}
	if err != nil {
		t.Fatalf("%s is not drawn: %v", address, err)
	}
	return drawn
}

// The screen of a key shows what is left and who denies, as the answers say it: what is held is a part of what is used,
// and a block by hand denies under a policy in shadow too.
func TestTheDashboardShowsAKeyAsItIs(t *testing.T) {
	const blocked = `"limits":[{"policy":"p","limit":"day","quota":"10","used":"0","held":"0","remaining":"10",` +
		`"shadow":true,"blockedUntil":"2030-01-01T00:00:00Z"}]`
	for _, c := range []struct {
		get, check, text string
		bars             []string
	}{
		{`"limits":[{"policy":"p","limit":"day","quota":"10","used":"5","held":"5","remaining":"5"}]`,
			`"allowed":true`, "Allowed: 5 left.", []string{"45 "}},
		{`"limits":[{"policy":"p","limit":"day","quota":"10","used":"10","held":"2","remaining":"0"}]`,
			`"allowed":false,"limits":[{"policy":"p","limit":"day","remaining":"0"}]`, "Denied by p/day",
			[]string{"90 bad"}},
		{blocked, `"allowed":false,` + blocked, "Denied by p (blocked)", []string{"0 "}},
		{blocked, `"allowed":true,` + blocked, "Allowed: nothing limits it. Limits in shadow would deny.", []string{"0 "}},
	} {
		drawn := drawDashboard(t, "key?policy=p&key=k", `"LimitService/Get":{"at":"2026-01-01T00:00:00Z",`+c.get+
			`},"LimitService/Check":{"decision":{`+c.check+`}}`)
		if !strings.HasPrefix(drawn.Text, c.text) || !slices.Equal(drawn.Bars, c.bars) {
			t.Errorf("drawn as %.80q with the bars %q, want %q with %q", drawn.Text, drawn.Bars, c.text, c.bars)
		}
	}
}

// The line above every screen counts what the command status counts, and a token that may not see the state is told so:
// nothing is wrong then. A node that answers is not silent. Nothing that is wrong hides the backup or the dead letters.
func TestTheDashboardTellsTheStateAsItIs(t *testing.T) {
	const unseen = "This token may not see the state of the cluster: that takes the operation observe."
	const one = `"nodes":[{"id":"n1","state":"active","alive":true}]`
	for _, c := range []struct{ status, dead, health, says, saysNot string }{
		{`"nodes":[{"id":"n1","state":"active","alive":true,"machine":{}},{"id":"n0","state":"removed"}],` +
			`"shards":[{"name":"system","owner":"n1"},{"name":"0","owner":"n1"}]`, ``,
			"well: All is well: 1 node, 1 shard, all owned. There is no backup.", "n0removed", "silent"},
		{one, ``, "well: All is well: 1 node, 0 shards, all owned. There is no backup.", "n1active", "silent"},
		{`"nodes":[{"id":"n1","state":"active","silent":"3s"}]`, ``,
			"well: All is well: 1 node, 0 shards, all owned. There is no backup.", "n1silent for 3 s", "n1active"},
		{one + `,"partial":true`, ``, "bad: " + unseen, unseen, "silent"},
		{one + `,"partial":true`, `{}`, "bad: " + unseen + "\n1 dead letter: see Events.", unseen, "silent"},
		{one, `{},{}`, "bad: 1 node, 0 shards, all owned. There is no backup. 2 dead letters: see Events.", "n1active",
			"silent"},
		{one + `,"problems":["p","q"]`, ``, "bad: p\nq\nThere is no backup.", "n1active", "silent"},
		{one + `,"problems":["p"]`, `{},{}`, "bad: p\nThere is no backup. 2 dead letters: see Events.", "n1active",
			"silent"},
	} {
		drawn := drawDashboard(t, "cluster", `"ClusterService/Status":{`+c.status+
			`},"SinkService/ListEvents":{"events":[`+c.dead+`]}`)
		if drawn.Health != c.health || !strings.Contains(drawn.Text, c.says) ||
			strings.Contains(drawn.Text, c.saysNot) {
			t.Errorf("%s is drawn as %q below %q, want %q", c.status, drawn.Text, drawn.Health, c.health)
		}
	}
}

// A bill is shown as the command usage prints it: with what is owed, and its period in the meter's zone.
func TestTheDashboardShowsBillsAsTheCommandUsageDoes(t *testing.T) {
	for _, c := range []struct{ start, end, zone, label, period string }{
		{"2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z", "Europe/Berlin", "26-10", "2026-10"},
		{"2026-10-01T04:00:00Z", "2026-11-01T04:00:00Z", "America/New_York", "26-10", "2026-10"},
		{"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "", "26-12", "2026-12"},
		{"2025-12-31T23:00:00Z", "2026-12-31T23:00:00Z", "Europe/Berlin", "2026", "2026"},
		{"2026-10-30T23:00:00Z", "2026-10-31T23:00:00Z", "Europe/Berlin", "10-31", "2026-10-31"},
		{"2026-10-04T22:00:00Z", "2026-10-11T22:00:00Z", "Europe/Berlin", "10-05",
			"2026-10-05 00:00 to 2026-10-12 00:00 Europe/Berlin"},
		{"2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "Europe/Unknown", "26-10", "2026-10"}, // to this browser
	} {
		record := `"policy":"p","meter":"m","key":"k","start":"` + c.start + `","end":"` + c.end + `","units":"977",` +
			`"credits":"12","corrections":"-5","state":"USAGE_STATE_FINAL","recovered":true`
		if c.zone != "" {
			record += `,"timeZone":"` + c.zone + `"`
		}
		drawn := drawDashboard(t, "usage?policy=p&key=k", `"ObserveService/ListUsage":{"records":[{`+record+`}]}`)
		want := "960" + c.label + "policymeterkeyperiodstateunitscreditscorrectionsowed" +
			"pmk" + c.period + "final, recovered97712-5960"
		if !strings.HasPrefix(drawn.Text, want) {
			t.Errorf("%s is drawn as %q, want %q", record, drawn.Text, want)
		}
	}
}

// A page without bills says that there are none only if it is the last, and if all bills can be read.
func TestTheDashboardDoesNotDenyBillsOnOtherPages(t *testing.T) {
	const none, more = "No usage: only policies with meter: keep it.", "The command stint usage lists all"
	for answer, is := range map[string]struct{ says, saysNot string }{
		``:                    {none, more},
		`"nextPageToken":"t"`: {more, none},
		`"unreadable":[{"policy":"p","key":"k"}]`: {"Without the bills of 1 key, which cannot be read", none},
	} {
		drawn := drawDashboard(t, "usage?policy=p&key=k", `"ObserveService/ListUsage":{`+answer+`}`)
		if !strings.Contains(drawn.Text, is.says) || strings.Contains(drawn.Text, is.saysNot) {
			t.Errorf("the answer %q is drawn as %q, want %q and not %q", answer, drawn.Text, is.says, is.saysNot)
		}
	}
}
