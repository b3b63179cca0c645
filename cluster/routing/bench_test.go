package routing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// BenchmarkDecide measures the router alone: the owner is local and answers at once. One operation is one call.
func BenchmarkDecide(b *testing.B) {
	for _, sessions := range []bool{false, true} {
		for _, requests := range []int{1, 64} {
			b.Run(fmt.Sprintf("sessions=%t/requests=%d", sessions, requests), func(b *testing.B) {
				r := New(routerAlone(sessions))
				together := make([]shard.Request, requests)
				for i := range together {
					together[i] = check("{one}" + fmt.Sprint(i))
				}
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				b.ReportAllocs()
				for b.Loop() {
					if results := r.Decide(ctx, together); results[0].Err != nil {
						b.Fatal(results[0].Err)
					}
				}
			})
		}
	}
}

// routerAlone configures a router on a node that owns all shards.
func routerAlone(sessions bool) Config {
	told := &shard.SystemAnswer{Session: shard.Session{Epoch: 1, Seq: 1}}
	owner := ownerFunc(func(_ context.Context, requests []shard.Request) []shard.Result {
		results := make([]shard.Result, len(requests))
		for i := range results {
			results[i].Decision = shard.Decision{Allowed: true, System: told}
		}
		return results
	})
	return Config{
		Node:     "n1",
		Slots:    evenly(4),
		Places:   func(shard.ID) []string { return []string{"n1"} },
		Local:    func(shard.ID) (Owner, bool) { return owner, true },
		Leader:   func(shard.ID) string { return "n1" },
		Hints:    gossip.NewHints(4),
		Sessions: func(shard.ID) bool { return sessions },
	}
}

type ownerFunc func(ctx context.Context, requests []shard.Request) []shard.Result

func (f ownerFunc) Submit(ctx context.Context, requests []shard.Request) []shard.Result {
	return f(ctx, requests)
}

// evenly is the Slots of a Config for a cluster that was just founded.
func evenly(shards uint32) func() (*slot.Map, uint32) {
	slots := slot.Even(shards)
	return func() (*slot.Map, uint32) { return slots, shards }
}
