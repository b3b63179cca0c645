package hop

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// Calls of one frame for one shard are handled together, as long as this makes none of them worse off.
func TestCallsThatAreAlikeAreHandledTogether(t *testing.T) {
	many := func(n int, op shard.Op) []shard.Request {
		return slices.Repeat([]shard.Request{{Op: op}}, n)
	}
	second := time.Second
	call := func(number uint64, id shard.ID, hops int, budget time.Duration, requests []shard.Request) callRecord {
		return callRecord{number: number, shard: id, hops: hops, budget: budget, requests: requests}
	}
	all := bundles([]callRecord{
		call(1, 0, 1, second, many(1, shard.Check)),
		call(2, 1, 1, second, many(1, shard.Check)), // another shard
		call(3, 0, 1, second-1, many(3, shard.Check)),
		call(4, 0, 2, second, many(1, shard.Check)),    // no further hop allowed
		call(5, 0, 1, second/50, many(1, shard.Check)), // less time
		call(6, 0, 1, 0, many(1, shard.Check)),         // no deadline
		call(7, 0, 1, second, many(1, shard.Settle)),   // more urgent
		call(8, 0, 1, second, []shard.Request{{Op: shard.Check}, {Op: shard.Peek}}),
		call(9, 0, 1, second, []shard.Request{{Op: shard.Check}, {Op: shard.Peek}}),
		call(10, 0, 1, second, many(maxCallRequests-5, shard.Check)),
		call(11, 0, 1, second, many(10, shard.Check)), // one too many for a call
		call(12, 0, 1, second, many(10, shard.Check)),
	})
	var got [][]uint64
	for _, b := range all {
		var numbers []uint64
		requests := 0
		for _, c := range b.calls {
			numbers = append(numbers, c.number)
			requests += len(c.requests)
			if c.budget > b.budget || c.budget == 0 && b.budget != 0 || 2*c.budget < b.budget {
				t.Errorf("call %d has %v, its bundle %v", c.number, c.budget, b.budget)
			}
		}
		if together := b.together(); len(together) != requests || requests != b.requests {
			t.Errorf("calls %v have %d requests, together %d, and %d are told",
				numbers, requests, len(together), b.requests)
		}
		got = append(got, numbers)
	}
	want := [][]uint64{{1, 3, 10}, {2}, {4}, {5}, {6}, {7}, {8}, {9}, {11, 12}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("together are %v, must be %v", got, want)
	}
}
