package policy

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
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
