package policy_test

import (
	"strings"
	"testing"

	"github.com/stint-io/stint/policy"
)

// Rules are a part of the file: written after the policies, read back, and compared one by one.
func TestRulesOfAFile(t *testing.T) {
	const (
		perIP = "policies: {p: {limits: [{name: l, quota: 1, lifetime: {}}]}}\n"
		gate  = "{no_match: deny, routes: [{match: {}, entries: [{policy: p, key: k}]}]}"
	)
	before := parsed(t, perIP+"gates: {web: "+gate+", api: "+gate+"}\nnamespaces:\n  shop: {}\n")
	written := "    identity: [ip]\n    no_match: deny\n    routes:\n" +
		"      - {match: {}, entries: [{policy: p, key: \"k\"}]}\n"
	want := "policies:\n  p:\n    limits:\n      - {name: l, quota: 1, lifetime: {}}\n" +
		"namespaces:\n  shop: {}\ngates:\n  api:\n" + written + "  web:\n" + written
	if got := string(policy.Format(before)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	rules := string(policy.FormatRules(before))
	again, err := policy.ParseRules("rules", []byte(rules), parsed(t, perIP))
	if err != nil || !strings.HasSuffix(want, rules) || string(policy.Format(again)) != want {
		t.Errorf("%v: %s", err, policy.Format(again))
	}
	none, err := policy.ParseRules("rules", nil, before)
	if err != nil || policy.FormatRules(none) != nil || policy.FormatRules(before) == nil {
		t.Errorf("%v: %s", err, policy.Format(none))
	}
	changes := policy.DiffRules(before,
		parsed(t, perIP+"envoy: {edge: {}}\ngates: {api: "+gate+"}\nnamespaces: {shop: {}}\n"))
	if len(changes) != 2 || changes[0].Name != "web" || changes[0].After != nil || changes[1].Section != "envoy" ||
		string(changes[1].After) != "envoy:\n  edge: {}\n" {
		t.Errorf("%q", changes)
	}
}

// A change of a namespace's keys makes all of them new: its author has to know.
func TestRekeyedNamespaces(t *testing.T) {
	plain := parsed(t, "policies: {}\nnamespaces: {shop: {}, off: {keys: plain}, left: {keys: hashed}, "+
		"kept: {keys: hashed}}\n")
	other := parsed(t, "policies: {}\nnamespaces: {shop: {keys: hashed}, added: {keys: hashed}, quiet: {}, "+
		"kept: {keys: hashed}}\n")
	for _, got := range [][]string{plain.Rekeyed(other), other.Rekeyed(plain)} {
		if strings.Join(got, " ") != "added left shop" {
			t.Errorf("%q", got)
		}
	}
	if got := plain.At(7).Rekeyed(plain); got != nil {
		t.Errorf("%q", got)
	}
	if !other.At(7).HashesKeys("shop") || other.HashesKeys("quiet") || other.HashesKeys("default") ||
		!other.HashesAnyKeys() || policy.NewSet(nil).HashesAnyKeys() {
		t.Error("not what the file says")
	}
}
