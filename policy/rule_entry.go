package policy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stint-io/stint/limit"
)

// RuleEntry is what a rule makes of a request: an entry of a check.
type RuleEntry struct {
	Policy string
	Key    Template
	Cost   uint64 // 0: a look, which counts nothing and is denied when nothing is left
	Mode   EntryMode
}

// EntryMode is what an entry of a rule does besides counting.
type EntryMode uint8

// The modes.
const (
	EntryEnforce EntryMode = 0 // it decides, together with all other entries that do
	EntryCount   EntryMode = 1 // it counts even past the quota, and never denies
	EntryShadow  EntryMode = 2 // it counts what it would admit, and never denies
)

// noParent is the problem of a key whose policy has a parent.
const noParent = `has no "/" behind something, and policy %s has a parent, whose key is what stands before it`

// ruleEntriesMax bounds the entries of one rule.
const ruleEntriesMax = 8

// ruleEntry reads an entry whose key may have these fields.
func (d *decoder) ruleEntry(v value, known []string, keyRequired bool) RuleEntry {
	e := RuleEntry{Cost: 1}
	f := d.fields(v, "policy", "key", "cost", "mode")
	d.require(v, f, "policy")
	if keyRequired {
		d.require(v, f, "key")
	}
	d.text(f["policy"], &e.Policy)
	d.number(f["cost"], &e.Cost)
	word(d, f["mode"], entryModeWords, &e.Mode)
	var text string
	d.text(f["key"], &text)
	key, err := ParseTemplate(text, known)
	if err != nil {
		d.fail(v.path+".key", "%v", err)
	}
	e.Key = key
	return e
}

// text returns an entry in one line.
func (e *RuleEntry) text() string {
	fields := fieldList{"policy: " + plain(e.Policy)}
	if e.Key.text != "" {
		fields.add("key", strconv.Quote(e.Key.text))
	}
	if e.Cost != 1 {
		fields.number("cost", &e.Cost)
	}
	if e.Mode != EntryEnforce {
		fields.add("mode", entryModeWords[e.Mode])
	}
	return fields.String()
}

// ruleEntries checks the entries of a rule beside the policies that they name.
func (c *checker) ruleEntries(field string, entries []RuleEntry, policies *Set) {
	c.count(field, len(entries), 0, ruleEntriesMax)
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", field, i)
		p, known := policies.Lookup(e.Policy)
		if !known {
			c.fail(at+".policy", "the file has no policy %s%s", shown(e.Policy), didYouMean(policies.Nearest(e.Policy)))
		}
		if known && p.Parent != "" && !e.Key.hasParent() { //mutant:key-escapes-its-pool
			c.fail(at+".key", noParent, p.Name)
		}
		if e.Cost > limit.MaxCost {
			c.fail(at+".cost", "is %d: at most %d are allowed", e.Cost, uint64(limit.MaxCost))
		}
		if e.Mode > EntryShadow {
			c.fail(at+".mode", "%d is none", e.Mode)
		}
		if e.Cost == 0 && e.Mode != EntryEnforce {
			c.fail(at+".mode", "is for entries that count: a look counts nothing")
		}
		if j := slices.IndexFunc(entries[:i], func(o RuleEntry) bool { return o.Policy == e.Policy && o.Key.text == e.Key.text }); j >= 0 {
			c.fail(at, "repeats %s[%d]: add the costs", field, j)
		}
	}
}
