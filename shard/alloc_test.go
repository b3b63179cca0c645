package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

// TestAllocationsOfAPlainCheck fixes what checks of a key that is there cost: a batch has its working set and its effect,
// and each check the statuses of its answer, and nothing else. What needs one more says so here.
func TestAllocationsOfAPlainCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits []limit.Limit
		size   int
		want   float64
	}{
		{"one limit", []limit.Limit{bucketLimit}, 1, 14},
		{"one limit", []limit.Limit{bucketLimit}, 100, 115},
		{"two limits", []limit.Limit{bucketLimit, windowLimit}, 1, 15},
		{"two limits", []limit.Limit{bucketLimit, windowLimit}, 100, 116},
	} {
		w := newWorld(t, onePolicy(c.limits...))
		w.must(origin, checkOf("p", "k", 1))
		requests := make([]Request, c.size)
		for i := range requests {
			requests[i] = checkOf("p", "k", 1)
		}
		at := w.next(origin + 1)
		if got := testing.AllocsPerRun(100, func() { Evaluate(w, w.policies, requests, at) }); got != c.want {
			t.Errorf("%s: a batch of %d checks costs %v allocations, want %v", c.name, c.size, got, c.want)
		}
	}
}
