package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// Every node, including the owner, repeats a denial until a change passes it: then the node that was asked for the
// change and the owner admit at once.
func TestADenialIsRepeatedByEveryNodeUntilAResetPassesIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		ask := func(node int, op shard.Op, key string) shard.Decision {
			t.Helper()
			r := c.ask(node, op, "flooded", key)
			if r.Err != nil {
				t.Fatalf("node %d: %v", node+1, r.Err)
			}
			return r.Decision
		}
		for i := range 4 { // keys of several shards, and so of several owners
			key := fmt.Sprint("key ", i)
			if d := ask(0, shard.Check, key); !d.Allowed {
				t.Fatalf("the first was denied: %+v", d)
			}
			begin := time.Now()
			var first [3]shard.Decision
			for node := range first {
				first[node] = ask(node, shard.Check, key)
			}
			for node := range first {
				d := ask(node, shard.Check, key)
				if d.Allowed || d.Age == 0 || d.DecidedAt != first[node].DecidedAt {
					t.Errorf("node %d: %+v\nafter     %+v", node+1, d, first[node])
				}
			}
			if ask(1, shard.Reset, key); time.Since(begin) > 9*time.Second {
				t.Fatal("this took longer than the denials live")
			}
			if d := ask(1, shard.Peek, key); !d.Allowed {
				t.Errorf("after a reset: %+v", d)
			}
			if d := ask(1, shard.Check, key); !d.Allowed || d.Age != 0 {
				t.Errorf("the node of the reset: %+v", d)
			}
		}
	})
}

// BenchmarkFlood measures 100 checks of exhausted keys, behind the API of one node, with a deny_cache and without.
func BenchmarkFlood(b *testing.B) {
	n := start(b, testConfig(b))
	defer stop(b, n)
	for _, policy := range []string{"asked", "flooded"} {
		b.Run(policy, func(b *testing.B) {
			requests := make([]shard.Request, 100)
			for i := range requests {
				requests[i] = shard.Request{Op: shard.Check, Namespace: "default",
					Entries: []shard.Entry{{Policy: policy, Key: fmt.Sprint("key ", i), Cost: 2}}}
			}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					for _, r := range n.Decide(b.Context(), requests) {
						if r.Err != nil || r.Decision.Allowed {
							b.Errorf("%+v", r)
						}
					}
				}
			})
		})
	}
}
