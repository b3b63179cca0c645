package policy

import (
	"maps"
	"slices"
)

// Nearest suggests the policy that an unknown name may misspell, or returns "" if no name is near.
func (s *Set) Nearest(name string) string { return nearest(name, s.Names()) }

// NearestTier is Nearest for the tiers of a policy.
func (p *Policy) NearestTier(name string) string {
	return nearest(name, slices.Sorted(maps.Keys(p.Tiers)))
}

// didYouMean returns the end of a problem that suggests a name; "" for none.
func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return ": did you mean " + shown(near) + "?"
}

// nearest returns the known name that differs from name by the fewest letters: at most two, and less than half of them.
// If several are equally near, the first one wins.
func nearest(name string, known []string) (best string) {
	const lettersMost = 64 // a longer name is not a misspelling
	if len(name) > lettersMost {
		return ""
	}
	least := min(2, (len(name)-1)/2)
	for _, k := range known {
		if d := distance(name, k, least); d <= least {
			best, least = k, d-1
		}
	}
	return best
}

// distance returns how many letters of a must be changed, added, left out, or swapped with their neighbor to get b
// (optimal string alignment distance; Boytsov 2011, section 2.2). A distance above most is returned as some number
// above most.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			same := 1
			if a[i] == b[j] {
				same = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+same)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
