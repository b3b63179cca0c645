package policy

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Change is one policy that differs between two sets.
type Change struct {
	Name   string
	Before *Policy // nil if the policy is new
	After  *Policy // nil if the policy was removed
}

// Diff lists the policies that differ in their canonical text, in alphabetical order. A nil set is an empty one. It may
// be called concurrently.
func Diff(before, after *Set) (changes []Change) {
	old, fresh := cmp.Or(before, emptySet).byName, cmp.Or(after, emptySet).byName
	both := maps.Clone(old)
	maps.Copy(both, fresh)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		c := Change{name, old[name], fresh[name]}
		if c.Before == nil || c.After == nil || !bytes.Equal(FormatPolicy(c.Before), FormatPolicy(c.After)) {
			changes = append(changes, c)
		}
	}
	return changes
}

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
