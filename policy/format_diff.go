package policy

import "bytes"

// Change is one policy that differs between two sets.
type Change struct {
	Name   string
	Before *Policy // nil: the policy is new
	After  *Policy // nil: the policy was removed
}

// Diff lists the policies whose canonical text differs, in alphabetical order. A nil set is an empty one. It may be called
// concurrently.
func Diff(before, after *Set) []Change {
	if before == nil {
		before = NewSet(nil)
	}
	if after == nil {
		after = NewSet(nil)
	}
	var changes []Change
	old, fresh := before.names, after.names
	for len(old) > 0 || len(fresh) > 0 {
		var c Change
		if len(fresh) == 0 || len(old) > 0 && old[0] <= fresh[0] {
			c.Name = old[0]
		} else {
			c.Name = fresh[0]
		}
		if len(old) > 0 && old[0] == c.Name {
			c.Before, old = before.byName[c.Name], old[1:]
		}
		if len(fresh) > 0 && fresh[0] == c.Name {
			c.After, fresh = after.byName[c.Name], fresh[1:]
		}
		if !c.none() {
			changes = append(changes, c)
		}
	}
	return changes
}

func (c Change) none() bool {
	return c.Before != nil && c.After != nil && bytes.Equal(FormatPolicy(c.Before), FormatPolicy(c.After))
}
