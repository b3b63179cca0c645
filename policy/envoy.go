package policy

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// EnvoyDomain is the rules of one domain of Envoy's rate limit service. It is immutable: any number of goroutines may
// read it.
type EnvoyDomain struct {
	Name string // as Envoy sends it: any text
	// Namespace of the keys; "" is the default namespace.
	Namespace string      `policy:"namespace" text:"name" about:"Absent: the default namespace."`
	Rules     []EnvoyRule `policy:"rules" most:"2000" lines:"fields" about:"A descriptor meets at most one of them."`

	root *envoyNode // made of Rules by compile; nil until then
}

// EnvoyRule says what a descriptor counts. At most one rule matches a descriptor (EnvoyDomain.Match).
type EnvoyRule struct {
	// Match has a condition for each entry of a descriptor, in their order. The descriptor has no other entries.
	Match []EnvoyEntry `policy:"match,required" least:"1" most:"16" about:"Entries of a descriptor; * is any text."`
	Name  string       `policy:"name" text:"envoy" about:"For the replaces of other rules."` // optional
	// Replaces names rules: a request that meets this rule does not count by them.
	Replaces []string `policy:"replaces" text:"envoy" most:"16" about:"Names of rules that do not count then."`
	// LookPast makes a look denied only when more than the quota is used, as in envoyproxy/ratelimit, and not already
	// when nothing is left.
	LookPast bool        `policy:"look_past_quota" about:"A look is denied only when more than the quota is used."`
	Entries  []RuleEntry `policy:"entries,required" most:"8" lines:"items" about:"What such a request counts."`
}

// EnvoyEntry is a pair of a descriptor or, in a rule, the condition on such a pair: "*" in its value matches any text.
// "*" alone matches only values that no other rule of the key matches.
type EnvoyEntry struct{ Key, Value string }

// envoyTextMax bounds a name, key or value, in bytes.
const envoyTextMax = 256

func (e *EnvoyDomain) problems(policies *Set) []Problem {
	var c checker
	c.path = "envoy." + shown(e.Name)
	first, names := map[string]int{}, map[string]bool{}
	for i := range e.Rules {
		names[e.Rules[i].Name] = true
		met := string(DescriptorKey(e.Rules[i].Match))
		if j, twice := first[met]; twice {
			c.fail(fmt.Sprintf("rules[%d].match", i), "is that of rules[%d]: a descriptor meets one rule", j)
		} else {
			first[met] = i
		}
		c.ruleEntries(fmt.Sprintf("rules[%d].entries", i), e.Rules[i].Entries, policies)
	}
	for i := range e.Rules {
		for j, name := range e.Rules[i].Replaces {
			field := fmt.Sprintf("rules[%d].replaces[%d]", i, j)
			switch {
			case name == e.Rules[i].Name:
				c.fail(field, "is the rule itself")
			case name == "" || !names[name]:
				c.fail(field, "the domain has no rule named %s", shown(name))
			}
		}
	}
	return c.found
}

// finishEnvoyRule refuses keys with fields that the match of their rule does not have.
func finishEnvoyRule(d *decoder, v value, of any) {
	r := of.(*EnvoyRule)
	known := envoyFields(r.Match)
	for i := range r.Entries {
		d.templateFields(fmt.Sprintf("%s.entries[%d].key", v.path, i), r.Entries[i].Key, known)
	}
}

// matchKind is one key with its value.
var matchKind = kindFor(func(d *decoder, v value, m *EnvoyEntry) {
	fields := d.entries(v)
	switch {
	case len(fields) == 1:
		if m.Key = fields[0].name; m.Key == "" {
			d.fail(v.path, "is empty")
		}
		textKind(`text:"envoy"`).readInto(d, fields[0], &m.Value)
	case !d.failed[v.path]:
		d.fail(v.path, `must be one key with its value, such as {remote_address: "*"}`)
	}
}, func(m *EnvoyEntry) *yaml.Node {
	text := texts["envoy"].node
	return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text(m.Key), text(m.Value)}}
}, jsonSchema{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": texts["envoy"].schema})

// envoyFields are the fields that the key of an entry may have: the keys that a rule names once, and the numbers of
// all.
func envoyFields(match []EnvoyEntry) (names []string) {
	for i, m := range match {
		twice := slices.ContainsFunc(match, func(o EnvoyEntry) bool { return o != m && o.Key == m.Key }) ||
			slices.Index(match, m) < i
		if !twice {
			names = append(names, m.Key)
		}
		names = append(names, strconv.Itoa(i+1))
	}
	return names
}
