package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/policy"
)

const envoyPolicies = "policies: {p: {limits: [{name: minute, quota: 1, fixed_window: {period: 60s}}]}}\n"

// The rules of a domain are written in one way, whatever they are named.
func TestFormatOfEnvoyRules(t *testing.T) {
	set := parsed(t, envoyPolicies+`
envoy:
  "My Domain/1":
    rules:
      - {match: [{":path": "/a b*"}, {"yes": "\"}"}], entries: []}
      - match: [{k: "*"}]
        name: The Name
        replaces: ["other one"]
        look_past_quota: true
        entries: [{policy: p, key: "{k}", cost: 3, mode: count}, {policy: p, cost: 0, mode: enforce}, {policy: p, key: "x", cost: 1}]
      - {match: [{k: v}], name: other one, entries: [{policy: p}]}
  edge: {}
`)
	const want = `envoy:
  "My Domain/1":
    rules:
      - match: [{":path": "/a b*"}, {"yes": "\"}"}]
        entries: []
      - match: [{k: "*"}]
        name: "The Name"
        replaces: ["other one"]
        look_past_quota: true
        entries:
          - {policy: p, key: "{k}", cost: 3, mode: count}
          - {policy: p, cost: 0}
          - {policy: p, key: "x"}
      - match: [{k: v}]
        name: "other one"
        entries:
          - {policy: p}
  edge: {}
`
	if got := string(policy.FormatRules(set)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	readBack(t, set)
}

// A descriptor finds its rule as in envoyproxy/ratelimit.
func TestMatchOfDescriptors(t *testing.T) {
	set := parsed(t, envoyPolicies+`
envoy:
  edge:
    rules:
      - {name: any, match: [{k: "*"}], entries: []}
      - {name: pattern, match: [{k: a*}], entries: []}
      - {name: later, match: [{k: ab*}], entries: []}
      - {name: middle, match: [{k: x*y*z}], entries: []}
      - {name: exact, match: [{k: abc}], entries: []}
      - {name: below, match: [{k: a*}, {l: "1"}], entries: []}
      - {name: deep, match: [{k: "*"}, {l: "*"}, {m: "*"}], entries: []}
`)
	domain := set.EnvoyDomain("edge")
	for text, want := range map[string]string{
		"k=abc":         "exact",
		"k=abd":         "pattern",
		"k=a":           "pattern",
		"k=":            "any",
		"k=q":           "any",
		"k=xyz":         "middle",
		"k=x1y22z":      "middle",
		"k=xzy":         "any",
		"k=xz":          "any",
		"l=1":           "",
		"":              "",
		"k=a,l=1":       "below",
		"k=a,l=2":       "", // no way back to the other step
		"k=abc,l=1":     "", // the exact step has no rule below it
		"k=q,l=1":       "", // a rule of three
		"k=q,l=1,m=":    "deep",
		"k=q,l=1,m=,n=": "",
		"kk=abc":        "",
	} {
		var descriptor []policy.EnvoyEntry
		for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			k, v, _ := strings.Cut(pair, "=")
			descriptor = append(descriptor, policy.EnvoyEntry{Key: k, Value: v})
		}
		got := ""
		if r := domain.Match(descriptor); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%s meets %q, want %q", text, got, want)
		}
	}
	if set.EnvoyDomain("other") != nil {
		t.Error("a domain that nobody has written")
	}
}

func TestKeysOfDescriptors(t *testing.T) {
	set := parsed(t, envoyPolicies+`
envoy:
  edge:
    rules:
      - match: [{k: "*"}, {k: "*"}, {ip: "*"}]
        entries: [{policy: p}, {policy: p, key: "{ip}/{1}/{2}"}, {policy: p, key: everybody}]
`)
	descriptor := []policy.EnvoyEntry{{Key: "k", Value: "a|b"}, {Key: "k", Value: "{c}"}, {Key: "ip", Value: "::1"}}
	rule := set.EnvoyDomain("edge").Match(descriptor)
	for i, want := range []string{"k=a%7Cb|k=%7Bc%7D|ip=::1", "::1/a%7Cb/%7Bc%7D", "everybody"} {
		if got := rule.Key(&rule.Entries[i], descriptor); got != want {
			t.Errorf("entry %d: %q, want %q", i, got, want)
		}
	}
	long := []policy.EnvoyEntry{{Key: "k", Value: strings.Repeat("x", 600)}, descriptor[1], descriptor[2]}
	if got := rule.Key(&rule.Entries[0], long); len(got) != 512 {
		t.Errorf("a key of %d bytes", len(got))
	}
	odd := []policy.EnvoyEntry{{Key: "k", Value: "/a/b"}, {Key: "k"}, {Key: "ip", Value: "2001:db8::/64"}}
	for i, want := range []string{"k=%2Fa%2Fb|k=%empty|ip=2001:db8::%2F64", "2001:db8::%2F64/%2Fa%2Fb/%empty"} {
		if got := rule.Key(&rule.Entries[i], odd); got != want {
			t.Errorf("entry %d: %q, want %q", i, got, want)
		}
	}
}

// A number in a key is a place, whatever the keys of the descriptor are: imported rules rely on it.
func TestNumbersInKeysArePlaces(t *testing.T) {
	set := parsed(t, envoyPolicies+`envoy: {edge: {rules: [{match: [{"2": "*"}, {"03": "*"}, {a: "*"}],`+
		` entries: [{policy: p, key: "{1}/{2}/{3}/{03}/{a}"}]}]}}`)
	descriptor := []policy.EnvoyEntry{{Key: "2", Value: "first"}, {Key: "03", Value: "second"},
		{Key: "a", Value: "third"}}
	rule := set.EnvoyDomain("edge").Match(descriptor)
	if got := rule.Key(&rule.Entries[0], descriptor); got != "first/second/third/second/third" {
		t.Error(got)
	}
}

// A key without a parent would pass by the pool of its policy.
func TestKeysOfPoliciesWithParents(t *testing.T) {
	const file = `policies:
  pool: {limits: [{name: l, quota: 1, lifetime: {}}]}
  child: {parent: pool, limits: [{name: l, quota: 1, lifetime: {}}]}
envoy: {edge: {rules: [{match: [{"a/b": "*"}], entries: [{policy: child, key: KEY}]}]}}
`
	const gate = `gates: {web: {no_match: deny, routes: [{match: {}, entries: [{policy: child, key: "/{ip}"}]}]}}
`
	const want = `key: has no "/" behind something, and policy child has a parent`
	for key, ok := range map[string]bool{`"{a/b}/x"`: true, `"acme/{1}"`: true, `""`: false, `"{a/b}"`: false,
		`"/{1}"`: false} {
		_, err := policy.Parse("f", []byte(strings.Replace(file, "KEY", key, 1)))
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := policy.Parse("f", []byte(strings.Replace(file, "KEY", "a/b", 1)+gate)); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a gate: %v", err)
	}
}

func readEnvoy(t *testing.T, files ...string) (*policy.EnvoyImport, error) {
	t.Helper()
	m := &policy.EnvoyImport{}
	for i, text := range files {
		if err := m.Read([]string{"a.yaml", "b.yaml"}[i], []byte(text)); err != nil {
			return m, err
		}
	}
	return m, nil
}

func TestImportOfRatelimit(t *testing.T) {
	const dir = "testdata/envoy"
	for _, name := range []string{"every_field"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := readEnvoy(t, string(text))
		if err != nil {
			t.Fatal(err)
		}
		set, err := m.Set()
		if err != nil {
			t.Fatal(err)
		}
		readBack(t, set)
		got := "# " + strings.Join(m.Notes, "\n# ") + "\n" + string(policy.Format(set))
		want, err := os.ReadFile(filepath.Join(dir, name+".txt"))
		if err != nil || got != string(want) {
			t.Errorf("%v: got\n%s", err, got)
		}
	}
}

// Each mistake that envoyproxy/ratelimit refuses is refused here, with its line and field; so is what cannot be counted
// here.
func TestMistakesOfRatelimit(t *testing.T) {
	const unit = "rate_limit: {unit: second, requests_per_unit: 5}"
	for _, c := range []struct{ text, want string }{
		{"descriptors: []\n", "a.yaml:1:1: domain: is missing"},
		{"domain: ''\n", "domain: is missing"},
		{"domain: d\ndescriptors:\n  - value: v\n", "a.yaml:3:5: descriptors[0].key: is missing"},
		{"domain: d\ndescriptors:\n  - key: k\n    value: v\n  - {key: k, value: v}\n",
			"a.yaml:5:5: descriptors[1]: has the key and value of descriptors[0]"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: foo, requests_per_unit: 5}\n",
			"a.yaml:4:18: descriptors[0].rate_limit.unit: is foo: second"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {requests_per_unit: 5}\n",
			"descriptors[0].rate_limit.unit: is \"\": second"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unlimited: true, unit: second}\n",
			"descriptors[0].rate_limit.unit: is second, and the limit is unlimited"},
		{"domain: d\ndescriptors:\n  - key: k\n    ratelimit: {}\n", "a.yaml:4:5: descriptors[0].ratelimit: " +
			"is unknown here: did you mean rate_limit? Known are key, value, rate_limit"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: second, requests_per_unt: 5}\n",
			"descriptors[0].rate_limit.requests_per_unt: is unknown here"},
		{"domain: d\ndescriptors:\n  - a\n", "descriptors[0]: must be a mapping"},
		{"domain: d\ndescriptors:\n  - {0.25: x, key: k}\n", "descriptors[0].0.25: is unknown here"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {name: n, unit: second, replaces: [{name: n}]}\n",
			"replaces[0].name: is that of the limit itself"},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {name: n, unit: second, replaces: [{name: ''}]}\n",
			"replaces[0].name: is missing"},
		{"domain: d\ndescriptors:\n  - {key: k, value: v, share_threshold: true, " + unit + "}\n",
			`share_threshold: is for values with "*"`},
		{"domain: d\ndescriptors:\n  - {key: k, quota_mode: true, " + unit + "}\n",
			"descriptors[0].quota_mode: is not supported"},
		{"domain: d\ndescriptors:\n  - {key: k*, " + unit + "}\n", `descriptors[0].key: has "*"`},
		{"domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: second, requests_per_unit: 4294967296}}\n",
			"4294967296 is more than 4294967295"},
		{"domain: d\n\tx", "is not YAML"},
		{"domain: d\ndescriptors:\n  - {key: " + strings.Repeat("k", 200) + ", value: " + strings.Repeat("/", 110) +
			"*, share_threshold: true, " + unit + "}\n",
			"descriptors[0]: shares a counter by the key of all values on the way to it, " +
				"which has 532 bytes: at most 512"},
	} {
		m, err := readEnvoy(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
		if set, err := m.Set(); err != nil || len(set.Names()) > 0 {
			t.Errorf("%q has left something: %v", c.text, err)
		}
	}
	if _, err := readEnvoy(t, "kind: ConfigMap\ndata:\n  config.yaml: |\n    domain: d\n"); err == nil ||
		!strings.Contains(err.Error(), "is a ConfigMap: import the files") {
		t.Errorf("a file within a file: %v", err)
	}
}

// A domain may be in several files, as envoyproxy/ratelimit joins them with MERGE_DOMAIN_CONFIG.
func TestADomainOfSeveralFiles(t *testing.T) {
	const one = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {name: n, unit: second, requests_per_unit: 1}}\n"
	m, err := readEnvoy(t, one, "domain: d\ndescriptors:\n  - {key: l, rate_limit: {unit: second, "+
		"requests_per_unit: 2, replaces: [{name: n}]}}\n")
	if err != nil {
		t.Fatal(err)
	}
	set, err := m.Set()
	if err != nil || len(m.Notes) > 0 {
		t.Fatal(err, m.Notes)
	}
	rules := set.EnvoyDomain("d").Rules
	if len(rules) != 2 || rules[0].Match[0].Key != "k" || rules[1].Match[0].Key != "l" ||
		!slices.Equal(rules[1].Replaces, []string{"n"}) {
		t.Errorf("the rules are %+v", rules)
	}
	if m, err = readEnvoy(t, one, one); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Set(); err == nil || !strings.Contains(err.Error(), "rules[1].match: is that of rules[0]") {
		t.Errorf("one descriptor in two files: %v", err)
	}
}

func FuzzEnvoyImport(f *testing.F) {
	text, err := os.ReadFile("testdata/envoy/every_field.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &policy.EnvoyImport{}
		if m.Read("f", data) != nil {
			return
		}
		if set, err := m.Set(); err == nil {
			readBack(t, set)
		}
	})
}
