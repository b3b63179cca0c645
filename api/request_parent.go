package api

import (
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Parents returns an entry and behind it those that are decided together with it, because its policy has a parent: for
// other ways in than this package's.
func Parents(policies *policy.Set, e shard.Entry) ([]shard.Entry, error) {
	if p, found := policies.Lookup(e.Policy); !found || p.Parent == "" {
		return nil, nil
	}
	return withParents(policies, []shard.Entry{e})
}

// withParents adds the entries of the parents: what is spent on "vendor:acme/product:x" is spent on "vendor:acme" by its
// policy's parent too, and so on upwards. They come behind those that the caller named, whose order the answer keeps. A
// parent of several entries is spent the sum. One that the caller has named itself is left as it is.
func withParents(policies *policy.Set, entries []shard.Entry) ([]shard.Entry, error) {
	all := slices.Clip(entries)
	for _, e := range entries {
		for parent, ok := parentOf(policies, &e); ok; parent, ok = parentOf(policies, &parent) {
			at := repeated(all, parent)
			if at >= 0 && at < len(entries) {
				break // and what is above it is added for it
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
		return nil, shard.Invalidf("entries", "are %d, with those of the parents of their policies: at most %d are allowed",
			len(all), entriesMax)
	}
	return all, nil
}

// parentOf is the entry that is decided together with another one because of its policy; false: there is none. A tier is
// the other policy's matter.
func parentOf(policies *policy.Set, e *shard.Entry) (shard.Entry, bool) {
	if e.Limits != nil {
		return shard.Entry{}, false
	}
	p, found := policies.Lookup(e.Policy)
	if !found || p.Parent == "" {
		return shard.Entry{}, false
	}
	cut := strings.LastIndexByte(e.Key, '/')
	if cut <= 0 {
		return shard.Entry{}, false
	}
	return shard.Entry{Policy: p.Parent, Key: e.Key[:cut], Cost: e.Cost}, true
}
