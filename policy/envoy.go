package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EnvoyDomain is the rules of one domain of Envoy's rate limit service. It is immutable: any number of goroutines may read
// it.
type EnvoyDomain struct {
	Name      string // as Envoy sends it: any text
	Namespace string // "": the default namespace
	Rules     []EnvoyRule

	root *envoyNode // made of Rules by compile
}

// EnvoyRule says what a descriptor counts. A descriptor meets at most one rule (EnvoyDomain.Match).
type EnvoyRule struct {
	Name     string // for Replaces of other rules; "": none
	Match    []EnvoyEntry
	Replaces []string // a request that meets this rule does not count by the rules of these names
	Entries  []RuleEntry
	// LookPast: a look is denied only when more than the quota is used, as envoyproxy/ratelimit does it, and not already when
	// nothing is left.
	LookPast bool
}

// EnvoyEntry is a pair of a descriptor or, in a rule, what such a pair must be: its value may have "*" for any text. "*" alone
// is met only by values that no other rule of the key meets.
type EnvoyEntry struct{ Key, Value string }

// Bounds of a domain.
const (
	envoyTextMax  = 256 // of a name, key or value, in bytes
	envoyRulesMax = 2000
	envoyDepthMax = 16
	envoyNamesMax = 16 // that a rule replaces
)

func (e *EnvoyDomain) title() (section, name string) { return "envoy", e.Name }

func (e *EnvoyDomain) problems(policies *Set) []Problem {
	var c checker
	c.path = "envoy." + shown(e.Name)
	c.envoyText("", e.Name)
	if e.Namespace != "" {
		c.name("namespace", e.Namespace)
	}
	if c.count("rules", len(e.Rules), 0, envoyRulesMax); len(e.Rules) > envoyRulesMax {
		return c.found
	}
	first, names := map[string]int{}, map[string]bool{}
	for i := range e.Rules {
		names[e.Rules[i].Name] = true
		met := string(DescriptorKey(e.Rules[i].Match))
		if j, twice := first[met]; twice {
			c.fail(fmt.Sprintf("rules[%d].match", i), "is that of rules[%d]: a descriptor meets one rule", j)
		} else {
			first[met] = i
		}
		c.envoyRule(fmt.Sprintf("rules[%d]", i), &e.Rules[i], policies)
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

func (c *checker) envoyRule(field string, r *EnvoyRule, policies *Set) {
	if r.Name != "" {
		c.envoyText(field+".name", r.Name)
	}
	c.count(field+".match", len(r.Match), 1, envoyDepthMax)
	for i, m := range r.Match {
		at := fmt.Sprintf("%s.match[%d]", field, i)
		c.envoyText(at, m.Key)
		c.envoyText(at+"."+shown(m.Key), m.Value)
	}
	c.count(field+".replaces", len(r.Replaces), 0, envoyNamesMax)
	c.ruleEntries(field+".entries", r.Entries, policies)
}

func (c *checker) envoyText(field, text string) {
	switch {
	case text == "":
		c.fail(field, "is empty")
	case len(text) > envoyTextMax:
		c.fail(field, "has %d bytes: at most %d are allowed", len(text), envoyTextMax)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		c.fail(field, "must be valid UTF-8 without control characters")
	}
}

func (e *EnvoyDomain) write(w *writer) {
	if e.Namespace == "" && len(e.Rules) == 0 {
		w.line(1, "%s: {}", quotedText(e.Name))
		return
	}
	w.line(1, "%s:", quotedText(e.Name))
	if e.Namespace != "" {
		w.line(2, "namespace: %s", plain(e.Namespace))
	}
	if len(e.Rules) > 0 {
		w.line(2, "rules:")
	}
	for i := range e.Rules {
		e.Rules[i].write(w)
	}
}

func (r *EnvoyRule) write(w *writer) {
	match := make([]string, len(r.Match))
	for i, m := range r.Match {
		match[i] = fieldList{quotedText(m.Key) + ": " + quotedText(m.Value)}.String()
	}
	w.line(3, "- match: [%s]", strings.Join(match, ", "))
	if r.Name != "" {
		w.line(4, "name: %s", quotedText(r.Name))
	}
	if len(r.Replaces) > 0 {
		names := make([]string, len(r.Replaces))
		for i, name := range r.Replaces {
			names[i] = quotedText(name)
		}
		w.line(4, "replaces: [%s]", strings.Join(names, ", "))
	}
	if r.LookPast {
		w.line(4, "look_past_quota: true")
	}
	if len(r.Entries) == 0 {
		w.line(4, "entries: []")
		return
	}
	w.line(4, "entries:")
	for i := range r.Entries {
		w.line(5, "- %s", r.Entries[i].text())
	}
}

// quotedText returns any text for YAML: quoted, unless it is a name.
func quotedText(text string) string {
	if NameProblem(text) != "" {
		return strconv.Quote(text)
	}
	return plain(text)
}

func (d *decoder) envoyDomain(v value) *EnvoyDomain {
	e := &EnvoyDomain{Name: v.name}
	f := d.fields(v, "namespace", "rules")
	d.text(f["namespace"], &e.Namespace)
	if rules, ok := f["rules"]; ok {
		for _, item := range d.items(rules) {
			e.Rules = append(e.Rules, d.envoyRule(item))
		}
	}
	return e
}

func (d *decoder) envoyRule(v value) (r EnvoyRule) {
	f := d.fields(v, "match", "name", "replaces", "look_past_quota", "entries")
	d.require(v, f, "match", "entries")
	if match, ok := f["match"]; ok {
		for _, item := range d.items(match) {
			r.Match = append(r.Match, d.envoyMatch(item))
		}
	}
	d.text(f["name"], &r.Name)
	d.flag(f["look_past_quota"], &r.LookPast)
	if replaces, ok := f["replaces"]; ok {
		for _, item := range d.items(replaces) {
			var name string
			d.text(item, &name)
			r.Replaces = append(r.Replaces, name)
		}
	}
	if entries, ok := f["entries"]; ok {
		known := envoyFields(r.Match)
		for _, item := range d.items(entries) {
			r.Entries = append(r.Entries, d.ruleEntry(item, known, false))
		}
	}
	return r
}

func (d *decoder) envoyMatch(v value) (m EnvoyEntry) {
	fields := d.entries(v)
	if len(fields) != 1 {
		if !d.failed[v.path] {
			d.fail(v.path, `must be one key with its value, such as {remote_address: "*"}`)
		}
		return m
	}
	m.Key = fields[0].name
	d.text(fields[0], &m.Value)
	return m
}

// envoyFields are the fields that the key of an entry may have: the keys that a rule names once, and the numbers of all.
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
