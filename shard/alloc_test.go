package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/limit"
)

// TestAllocationsOfABatch fixes the allocations of a batch of requests on existing keys: its working set, its effects,
// and memory for answers in pieces of up to 64, but nothing per request. A change that allocates more must update this
// test.
func TestAllocationsOfABatch(t *testing.T) {
	check := func(int) Request { return checkOf("p", "k", 1) }
	count := func(int) Request { return tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 1}) }
	apart := func(i int) Request { return checkOf("p", fmt.Sprintf("k%d", i), 1) }
	for _, c := range []struct {
		name   string
		limits []limit.Limit
		of     func(i int) Request
		size   int
		want   float64
	}{
		{"a check", []limit.Limit{bucketLimit}, check, 1, 9},
		{"checks of one key", []limit.Limit{bucketLimit}, check, 100, 16},
		{"a check of two limits", []limit.Limit{bucketLimit, windowLimit}, check, 1, 9},
		{"checks of two limits", []limit.Limit{bucketLimit, windowLimit}, check, 100, 17},
		{"a tally", []limit.Limit{bucketLimit}, count, 1, 9},
		{"tallies of one key", []limit.Limit{bucketLimit}, count, 100, 16},
		{"a denial", []limit.Limit{{Algorithm: limit.Lifetime, Quota: 1}}, check, 1, 6},
		{"denials of one key", []limit.Limit{{Algorithm: limit.Lifetime, Quota: 1}}, check, 100, 13},
		{"checks of many keys", []limit.Limit{bucketLimit}, apart, 100, 142},
	} {
		w := newWorld(t, onePolicy(c.limits...))
		requests := make([]Request, c.size)
		for i := range requests {
			requests[i] = c.of(i)
		}
		w.batch(origin, requests...)
		at := w.next(origin + 1)
		if got := testing.AllocsPerRun(100, func() { Evaluate(w, w.policies, requests, at) }); got != c.want {
			t.Errorf("%s: a batch of %d costs %v allocations, want %v", c.name, c.size, got, c.want)
		}
	}
}

// TestLookupAllocatesNothing: neither in the table nor through an overlay.
func TestLookupAllocatesNothing(t *testing.T) {
	s := filled(t, 1000, windowLimit)
	key := keyOfBytes24(7)
	if got := testing.AllocsPerRun(100, func() {
		if _, found := s.Lookup(key); !found {
			t.Error("the key is missing")
		}
	}); got != 0 {
		t.Errorf("a lookup costs %v allocations", got)
	}
}
