package main

import (
	"fmt"
	"slices"
)

// spread is the median, the minimum and the maximum of several rounds.
type spread struct{ median, least, most float64 }

// spreadOf needs at least one value.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	s := spread{sorted[middle], sorted[0], sorted[len(sorted)-1]}
	if len(sorted)%2 == 0 {
		s.median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return s
}

func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"-"+format+")", s.median, s.least, s.most)
}
