package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// quotaPolicy is the stock policy with the given quota.
func quotaPolicy(t *testing.T, quota uint64) *policy.Set {
	set, err := policy.Parse("test", fmt.Appendf(nil,
		"policies:\n  stock:\n    limits:\n      - {name: total, quota: %d, lifetime: {}}\n", quota))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// keysOfAllShards returns one key for each data shard.
func keysOfAllShards(shards uint32) []string {
	keys := make([]string, shards)
	for i, found := 0, uint32(0); found < shards; i++ {
		key := fmt.Sprint("key ", i)
		if id := shard.Of(slot.Even(shards), shard.DefaultNamespace, key); keys[id] == "" {
			keys[id] = key
			found++
		}
	}
	return keys
}

// quota is the quota of a key, as a node answers it.
func (c *trio) quota(t *testing.T, i int, key string) uint64 {
	r := c.ask(i, shard.Get, "stock", key)
	if r.Err != nil {
		t.Errorf("node %d, %q: %v", i+1, key, r.Err)
		return 0
	}
	return r.Decision.Limits[0].Quota
}

// watchQuotas asks the first and the third node in turn for a key's quota until ctx ends. The quotas only grow, so they
// must never go back. It sends the time on first when it sees the wanted quota.
func (c *trio) watchQuotas(ctx context.Context, t *testing.T, key string, wanted uint64, first chan<- time.Time) {
	newest := uint64(0)
	for i := 0; ctx.Err() == nil; i += 2 {
		quota := c.quota(t, i%4, key) // not the second node, which is stopped meanwhile
		if quota < newest {
			t.Errorf("node %d decides %q by quota %d after %d was in force", i%4+1, key, quota, newest)
		}
		if quota >= wanted && newest < wanted {
			first <- time.Now()
		}
		newest = max(newest, quota)
		breathe()
	}
}

func TestAppliedPoliciesAreInForceEverywhereSoonAndForGood(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		firsts := make(chan time.Time, len(keys))
		for _, key := range keys {
			group.Go(func() { c.watchQuotas(ctx, t, key, 500, firsts) })
			if r := c.spend(0, key); r.Err != nil || !r.Decision.Allowed {
				t.Errorf("%q: %+v", key, r)
			}
		}
		apply := func(i int, quota uint64) time.Time {
			version, _, err := c.nodes[i].admin.Apply(t.Context(), quotaPolicy(t, quota), nil, false, "jo",
				fmt.Sprint("to ", quota))
			if err != nil || version == 0 {
				t.Fatalf("applying %d: version %d, %v", quota, version, err)
			}
			return time.Now()
		}
		apply(0, 200)
		apply(1, 300)
		applied := apply(2, 500)
		for range keys {
			at := await.Receive(t, "it is in force on all shards", firsts)
			t.Logf("in force %v after it was applied", at.Sub(applied))
		}
		for i := range 3 {
			if c.journal.says(c.configs[i].NodeID, "the policies file differs") != 0 {
				t.Errorf("node %d complains of the file that it has read at its start, "+
					"although others were applied since", i+1)
			}
		}
		stale := uint64(1)
		if _, _, err := c.nodes[0].admin.Apply(t.Context(), quotaPolicy(t, 600), &stale, false, "jo", ""); err == nil {
			t.Error("applied over a version that the caller had not seen")
		}
		c.stop(1) // its shards change hands: the new owner must not decide by less
		c.start(1)
		c.ready(1)
		cancel()
		group.Wait()

		c.restartElsewhere(t)
		changes, err := c.nodes[2].admin.PolicyHistory(t.Context())
		if err != nil || len(changes) != 4 || changes[0].Version != 1 || changes[0].Note != "the cluster was founded" ||
			changes[3].Version != 4 || changes[2].Actor != "jo" || changes[2].Note != "to 300" {
			t.Errorf("the history is %+v, %v", changes, err)
		}
		for i := range 3 {
			if c.journal.says(c.configs[i].NodeID, "the policies file differs from what is in force") == 0 {
				t.Errorf("node %d does not say that its policies file differs", i+1)
			}
			for _, key := range keys {
				if quota := c.quota(t, i, key); quota != 500 {
					t.Errorf("node %d, %q: quota %d after the restart, want 500", i+1, key, quota)
				}
				if used := c.used(i, "stock", key); used != 1 {
					t.Errorf("node %d, %q: used %d after the restart, want 1", i+1, key, used)
				}
			}
		}
	})
}
