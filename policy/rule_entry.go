package policy

import (
	"fmt"
	"slices"
)

// RuleEntry is one entry of the check that a rule makes of a request.
type RuleEntry struct {
	Policy string   `policy:"policy,required" about:"A policy of this file."`
	Key    Template `policy:"key" about:"What is counted: text with {keys of the match}. Absent: the descriptor."`
	// Cost 0 is a look, which counts nothing and is denied when nothing is left.
	Cost uint64    `policy:"cost" usual:"1" max:"1099511627776" about:"Units that it spends; 0 looks."`
	Mode EntryMode `policy:"mode" about:"What it does besides counting."`
}

// EntryMode is the effect of a rule's entry besides counting.
type EntryMode uint8

// The modes.
const (
	EntryEnforce EntryMode = 0 // it decides, together with all other enforced entries
	EntryCount   EntryMode = 1 // it counts even past the quota, and never denies
	EntryShadow  EntryMode = 2 // it counts the units that it would admit, and never denies
)

// noParent is the problem of a key without a parent, under a policy that has one.
const noParent = `has no "/" behind something, and policy %s has a parent, whose key is what stands before it`

// ruleEntries checks the entries of a rule against the policies that they name.
func (c *checker) ruleEntries(field string, entries []RuleEntry, policies *Set) {
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", field, i)
		p, known := policies.Lookup(e.Policy)
		if !known {
			c.fail(at+".policy", "the file has no policy %s%s", shown(e.Policy), didYouMean(policies.Nearest(e.Policy)))
		}
		if known && p.Parent != "" && !e.Key.hasParent() { //mutant:key-escapes-its-pool
			c.fail(at+".key", noParent, p.Name)
		}
		if e.Cost == 0 && e.Mode != EntryEnforce {
			c.fail(at+".mode", "is for entries that count: a look counts nothing")
		}
		if j := slices.IndexFunc(entries[:i],
			func(o RuleEntry) bool { return o.Policy == e.Policy && o.Key.text == e.Key.text }); j >= 0 {
			c.fail(at, "repeats %s[%d]: add the costs", field, j)
		}
	}
}
