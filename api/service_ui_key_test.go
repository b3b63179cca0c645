package api

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The screen of a key shows what is left and who denies, as the answers say it: what is held is a part of what is used,
// and a block by hand denies under a policy in shadow too.
func TestTheDashboardShowsAKeyAsItIs(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: Debian's nodejs has it")
	}
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
		draw := exec.Command(node, "testdata/dashboard.mjs")
		draw.Stdin = strings.NewReader(`{"hash":"#/key?policy=p&key=k","answers":{"LimitService/Get":{"at":` +
			`"2026-01-01T00:00:00Z",` + c.get + `},"LimitService/Check":{"decision":{` + c.check + `}}}}`)
		out, err := draw.Output()
		var drawn struct {
			Text string
			Bars []string
		}
		if err == nil {
			err = json.Unmarshal(out, &drawn)
		}
		if err != nil || !strings.HasPrefix(drawn.Text, c.text) || !slices.Equal(drawn.Bars, c.bars) {
			t.Errorf("drawn as %.80q with the bars %q, want %q with %q: %v", drawn.Text, drawn.Bars, c.text, c.bars, err)
		}
	}
}

// The line above every screen counts what the command status counts, and a token that may not see the state is told so:
// nothing is wrong then. A node that answers is not silent.
func TestTheDashboardTellsTheStateAsItIs(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: Debian's nodejs has it")
	}
	const unseen = "This token may not see the state of the cluster: that takes the operation observe."
	for _, c := range []struct{ status, health, says, saysNot string }{
		{`"nodes":[{"id":"n1","state":"active","alive":true,"machine":{}},{"id":"n0","state":"removed"}],` +
			`"shards":[{"name":"system","owner":"n1"},{"name":"0","owner":"n1"}]`,
			"All is well: 1 node, 1 shard, all owned.", "n0removed", "silent"},
		{`"nodes":[{"id":"n1","state":"active","alive":true}]`, "All is well: 1 node, 0 shards, all owned.", "n1active",
			"silent"},
		{`"nodes":[{"id":"n1","state":"active","silent":"3s"}]`, "All is well", "n1silent for 3 s", "n1active"},
		{`"nodes":[{"id":"n1","state":"active","alive":true}],"partial":true`, unseen, unseen, "silent"},
	} {
		draw := exec.Command(node, "testdata/dashboard.mjs")
		draw.Stdin = strings.NewReader(`{"hash":"#/cluster","answers":{"ClusterService/Status":{` + c.status + `}}}`)
		out, err := draw.Output()
		var drawn struct{ Text, Health string }
		if err == nil {
			err = json.Unmarshal(out, &drawn)
		}
		if err != nil || !strings.HasPrefix(drawn.Health, c.health) || !strings.Contains(drawn.Text, c.says) ||
			strings.Contains(drawn.Text, c.saysNot) {
			t.Errorf("%s is drawn as %q below %q: %v", c.status, drawn.Text, drawn.Health, err)
		}
	}
}
