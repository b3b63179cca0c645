package shard

import "testing"

// TestTheUseOfMemoryGrowsByEighths: each use begins at its part of the memory, not a byte later.
func TestTheUseOfMemoryGrowsByEighths(t *testing.T) {
	for used, want := range map[int]Use{0: Roomy, 749: Roomy, 750: Crowded, 874: Crowded, 875: Full, 999: Full,
		1000: Brimful, 1001: Brimful} {
		if got := UseOf(used, 1000); got != want {
			t.Errorf("%d bytes of 1000 are use %d, must be %d", used, got, want)
		}
	}
}
