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
