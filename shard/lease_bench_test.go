package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// BenchmarkAdopt adopts a revision beside an open lease, in a shard with a million keys: one that changes the numbers
// of their policy reads every record, any other none.
func BenchmarkAdopt(b *testing.B) {
	daily := func(name string, quota uint64) *policy.Policy {
		p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: quota, Period: day})
		p.Name = name
		return p
	}
	leasing := func(quota uint64) *policy.Policy {
		p := daily("p", quota)
		p.Lease = &policy.Lease{Units: 40, For: 2 * second, Share: 100}
		return p
	}
	w := newWorld(b, leasing(100), daily("other", 100))
	const keys = 1_000_000
	var requests []Request
	for n := range keys {
		if requests = append(requests, checkOf("p", fmt.Sprint("user:", n, "@example.com"), 1)); len(requests) == 2000 {
			w.batch(origin, requests...)
			requests = requests[:0]
		}
	}
	w.lease(origin+1, "a", 40)
	w.state.put(adoptPut(policy.Revision{Version: 1}, nil))
	for _, set := range [][]*policy.Policy{{leasing(99), daily("other", 100)}, {leasing(100), daily("other", 99)}} {
		revision := policy.Revision{Version: 2, Set: policy.NewSet(set)}
		b.Run(fmt.Sprintf("%d of %d", set[0].Limits[0].Quota, set[1].Limits[0].Quota), func(b *testing.B) {
			for b.Loop() {
				Adopt(w, w.policies, revision, w.next(origin+2))
			}
		})
	}
}
