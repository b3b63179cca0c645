package api

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Parents returns an entry followed by the entries that are decided together with it because its policy has a parent,
// or nil if there is no parent. It serves the entry points outside this package.
func Parents(policies *policy.Set, e shard.Entry) ([]shard.Entry, error) {
	if p, found := policies.Lookup(e.Policy); !found || p.Parent == "" {
		return nil, nil
	}
	return withParents(policies, []shard.Entry{e})
}

// withParents adds the entries of the parents: units spent on "vendor:acme/product:x" are spent on "vendor:acme" by the
// parent policy too, and so on upwards. They come after the caller's entries, which keep their order in the answer. A
// parent of several entries gets the sum of their costs. A parent that the caller named itself is left unchanged.
func withParents(policies *policy.Set, entries []shard.Entry) ([]shard.Entry, error) {
	all := slices.Clip(entries)
	for _, e := range entries {
		for parent, ok := shard.ParentOf(policies, &e); ok; parent, ok = shard.ParentOf(policies, &parent) {
			at := repeated(all, parent)
			if at >= 0 && at < len(entries) {
				break // the parents above it are added for it
			}
			if at < 0 {
				all = append(all, parent)
			} else if all[at].Cost += parent.Cost; all[at].Cost > limit.MaxCost {
				return nil, shard.Invalidf("entries", "spend %d on %q by policy %q together: at most %d are allowed",
					all[at].Cost, parent.Key, parent.Policy, int64(limit.MaxCost))
			}
		}
	}
	if len(all) > entriesMax {
		return nil, shard.Invalidf("entries", "are %d, with those of the parents of their policies: "+
			"at most %d are allowed",
			len(all), entriesMax)
	}
	return all, nil
}
