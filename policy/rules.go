package policy

import (
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
