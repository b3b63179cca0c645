package policy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Rules are the sections of a policies file besides the policies: they say how a request from outside becomes entries, each
// of which names a policy and a key. Each list is sorted by name. Rules are immutable: any number of goroutines may read them.
type Rules struct {
	Namespaces []*Namespace
	Gates      []*Gate
	Envoy      []*EnvoyDomain
}

// rule is an entry of one of the sections.
type rule interface {
	// title returns the section and the name of the rule.
	title() (section, name string)
	// problems checks the rule beside the policies that it names. The paths are those of the file.
	problems(policies *Set) []Problem
	// write writes the rule's canonical text, beginning with its name.
	write(w *writer)
}

// sections are the names of the sections, in the order in which Format writes them.
var sections = []string{"namespaces", "gates", "envoy"}

// all returns the rules in the order of Format.
func (r *Rules) all() (all []rule) {
	for _, n := range r.Namespaces {
		all = append(all, n)
	}
	for _, g := range r.Gates {
		all = append(all, g)
	}
	for _, e := range r.Envoy {
		all = append(all, e)
	}
	return all
}

// Empty reports whether there are no rules.
func (r *Rules) Empty() bool { return len(r.Namespaces)+len(r.Gates)+len(r.Envoy) == 0 }

func (r *Rules) sort() {
	slices.SortFunc(r.Namespaces, func(a, b *Namespace) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Gates, func(a, b *Gate) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Envoy, func(a, b *EnvoyDomain) int { return strings.Compare(a.Name, b.Name) })
}

func (r *Rules) problems(policies *Set) (problems []Problem) {
	for _, rule := range r.all() {
		problems = append(problems, rule.problems(policies)...)
	}
	return problems
}

// EnvoyDomain returns the rules of a domain of Envoy's rate limit service; nil: it has none.
func (s *Set) EnvoyDomain(name string) *EnvoyDomain {
	i, found := slices.BinarySearchFunc(s.rules.Envoy, name, func(e *EnvoyDomain, name string) int { return strings.Compare(e.Name, name) })
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
	of.rules.sort()
	for _, e := range r.Envoy {
		e.compile()
	}
	of.hashed = hashedOf(of.rules.Namespaces)
	return &of
}

// ParseRules reads the sections of a policies file besides the policies, as FormatRules writes them, for the set of the
// policies that they name, and returns the set with these rules in the place of its own. Empty text: no rules. The error is
// a *ParseError with every problem found.
func ParseRules(fileName string, text []byte, policies *Set) (*Set, error) {
	if len(strings.TrimSpace(string(text))) == 0 {
		return policies.with(Rules{}), nil
	}
	root, problem := load(text)
	if problem != nil {
		return nil, &ParseError{File: fileName, Problems: []Problem{*problem}}
	}
	d := newDecoder()
	set := policies.with(d.rules(d.fields(d.top(root), sections...)))
	if len(d.problems) == 0 {
		d.report(set.rules.problems(set))
	}
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		return nil, &ParseError{File: fileName, Problems: d.problems}
	}
	return set, tooLarge(set)
}

// FormatRules writes the rules of a set as their one canonical YAML text, which is a part of what Format writes; nil: there
// are none. It may be called concurrently.
func FormatRules(s *Set) []byte {
	var w writer
	w.rules(s.rules.all())
	return w.text
}

func (w *writer) rules(rules []rule) {
	before := ""
	for _, r := range rules {
		section, _ := r.title()
		if section != before {
			w.line(0, "%s:", section)
		}
		before = section
		r.write(w)
	}
}

// RuleChange is one rule that differs between two sets.
type RuleChange struct {
	Section, Name string // such as "gates" and "web"
	Before, After []byte // canonical text of the section with this rule alone; nil: there was, or is, none
}

// DiffRules lists the rules whose canonical text differs, in the order of Format. A nil set is an empty one. It may be called
// concurrently.
func DiffRules(before, after *Set) (changes []RuleChange) {
	type titled struct{ section, name string }
	texts := func(s *Set) (order []titled, texts map[titled][]byte) {
		texts = map[titled][]byte{}
		if s == nil {
			return nil, texts
		}
		for _, r := range s.rules.all() {
			section, name := r.title()
			var w writer
			w.rules([]rule{r})
			texts[titled{section, name}] = w.text
			order = append(order, titled{section, name})
		}
		return order, texts
	}
	order, old := texts(before)
	also, fresh := texts(after)
	for _, t := range also {
		if old[t] == nil {
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(a, b titled) int {
		if of := slices.Index(sections, a.section) - slices.Index(sections, b.section); of != 0 {
			return of
		}
		return strings.Compare(a.name, b.name)
	})
	for _, t := range order {
		if string(old[t]) != string(fresh[t]) {
			changes = append(changes, RuleChange{Section: t.section, Name: t.name, Before: old[t], After: fresh[t]})
		}
	}
	return changes
}

// top makes the value of a document's root.
func (d *decoder) top(root *yaml.Node) value {
	d.at[""] = place{root.Line, root.Column}
	return value{node: root}
}

// rules reads the sections.
func (d *decoder) rules(fields map[string]value) (r Rules) {
	for _, v := range d.section(fields, "namespaces") {
		r.Namespaces = append(r.Namespaces, d.namespace(v))
	}
	for _, v := range d.section(fields, "gates") {
		r.Gates = append(r.Gates, gateDecoder{d}.gate(v))
	}
	for _, v := range d.section(fields, "envoy") {
		r.Envoy = append(r.Envoy, d.envoyDomain(v))
	}
	return r
}

func (d *decoder) section(fields map[string]value, name string) []value {
	v, ok := fields[name]
	if !ok {
		return nil
	}
	return d.entries(v)
}

// tooLarge returns the error of a set that is larger than a file may be.
func tooLarge(set *Set) error {
	if size := len(Format(set)); size > fileBytesMax {
		return &ParseError{File: "policies", Problems: []Problem{{Message: fmt.Sprintf(
			"they have %d bytes as a file: at most %d are read", size, fileBytesMax)}}}
	}
	return nil
}
