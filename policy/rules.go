package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Rules are the sections of a policies file besides the policies: how a request from outside becomes entries, each with
// a policy and a key. Each list is sorted by name. Rules are immutable: any number of goroutines may read them.
type Rules struct {
	Namespaces []*Namespace   `policy:"namespaces" text:"name" lines:"fields" about:"Settings of namespaces."`
	Gates      []*Gate        `policy:"gates" text:"name" lines:"fields" about:"What a proxy's questions count."`
	Envoy      []*EnvoyDomain `policy:"envoy" text:"envoy" lines:"fields" about:"What descriptors of Envoy count."`
}

// problems checks the rules against the policies that they name. The paths are those of the file.
func (r *Rules) problems(policies *Set) (problems []Problem) {
	for _, g := range r.Gates {
		problems = append(problems, g.problems(policies)...)
	}
	for _, e := range r.Envoy {
		problems = append(problems, e.problems(policies)...)
	}
	return problems
}

// EnvoyDomain returns the rules of a domain of Envoy's rate limit service, or nil.
func (s *Set) EnvoyDomain(name string) *EnvoyDomain {
	i, found := slices.BinarySearchFunc(s.rules.Envoy, name, func(e *EnvoyDomain, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !found {
		return nil
	}
	return s.rules.Envoy[i]
}

// Rules returns the rules of the file. The caller must not change them.
func (s *Set) Rules() *Rules { return &s.rules }

// with returns a copy of the set with these rules.
func (s *Set) with(r Rules) *Set {
	of := *s
	of.rules = r
	for _, e := range r.Envoy {
		e.compile()
	}
	of.hashed = make(map[string]bool)
	for _, n := range r.Namespaces {
		if n.Keys == KeysHashed {
			of.hashed[n.Name] = true
		}
	}
	return &of
}

// ParseRules reads the sections of a policies file besides the policies, as FormatRules writes them, and returns the
// set with these rules in place of its own. The policies that the rules name must be in the set. Empty text means no
// rules. The error is a *ParseError with every problem found.
func ParseRules(fileName string, text []byte, policies *Set) (*Set, error) {
	if len(strings.TrimSpace(string(text))) == 0 {
		return policies.with(Rules{}), nil
	}
	root, problem := load(text)
	if problem != nil {
		return nil, &ParseError{File: fileName, Problems: []Problem{*problem}}
	}
	return readRules(fileName, root, policies)
}

func readRules(fileName string, root *yaml.Node, policies *Set) (*Set, error) {
	var r Rules
	d := newDecoder()
	sectionsKind.readInto(d, d.top(root), &r)
	set := policies.with(r)
	if len(d.problems) == 0 {
		d.report(set.rules.problems(set))
	}
	if err := d.error(fileName); err != nil {
		return nil, err
	}
	return set, tooLarge(set)
}

// FormatRules writes the rules of a set as their one canonical YAML text, which is a part of Format's output, or
// returns nil if there are none. It may be called concurrently.
func FormatRules(s *Set) []byte { return appendLines(nil, sectionsKind.nodeOf(&s.rules), 0) }

// RuleChange is one rule that differs between two sets.
type RuleChange struct {
	Section, Name string // such as "gates" and "web"
	Before, After []byte // canonical text of the section with this rule alone; nil if absent
}

// DiffRules lists the rules that differ in their canonical text, in the order of Format. A nil set is an empty one. It
// may be called concurrently.
func DiffRules(before, after *Set) (changes []RuleChange) {
	old, fresh := ruleTexts(before), ruleTexts(after)
	both := maps.Clone(old)
	maps.Copy(both, fresh)
	inOrder := func(a, b RuleChange) int {
		section := slices.Index(sections, a.Section) - slices.Index(sections, b.Section)
		return cmp.Or(section, strings.Compare(a.Name, b.Name))
	}
	for key := range both {
		if !bytes.Equal(old[key], fresh[key]) {
			changes = append(changes, RuleChange{key.section, key.name, old[key], fresh[key]})
		}
	}
	slices.SortFunc(changes, inOrder)
	return changes
}

// sections are the names of the sections, in the order in which Format writes them.
var sections = []string{"namespaces", "gates", "envoy"}

// ruleName names a rule.
type ruleName struct{ section, name string }

// ruleTexts returns the canonical text of each rule, as if it were the only one.
func ruleTexts(s *Set) map[ruleName][]byte {
	texts := map[ruleName][]byte{}
	file := sectionsKind.nodeOf(&cmp.Or(s, emptySet).rules).Content
	for i := 0; i < len(file); i += 2 {
		for rules := file[i+1].Content; len(rules) > 0; rules = rules[2:] {
			alone := mappingNode(file[i], mappingNode(rules[:2]...))
			texts[ruleName{file[i].Value, rules[0].Value}] = appendLines(nil, alone, 0)
		}
	}
	return texts
}

// top returns the root of a document as a value.
func (d *decoder) top(root *yaml.Node) value {
	d.at[""] = place{root.Line, root.Column}
	return value{node: root}
}

// tooLarge returns the error of a set that is larger than a file may be.
func tooLarge(set *Set) error {
	if size := len(Format(set)); size > fileBytesMax {
		return &ParseError{File: "policies", Problems: []Problem{{Message: fmt.Sprintf(
			"they have %d bytes as a file: at most %d are read", size, fileBytesMax)}}}
	}
	return nil
}
