package node

import (
	"errors"
	"slices"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// Every node lists the keys of all shards that it has a replica of, whichever node owns them, and refuses the others.
func TestEveryNodeListsKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		for i, key := range keys {
			if r := c.spend(i%3, key); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		for i, n := range c.nodes {
			await.Until(t, "the keys on "+c.configs[i].NodeID, func() bool {
				var listed []string
				for id := range shard.ID(4) {
					l, err := n.admin.ListKeys(t.Context(), id,
						shard.Listing{Namespace: shard.DefaultNamespace, Count: 100})
					if err != nil || l.Next != 0 {
						t.Fatalf("shard %s: %+v, %v", id, l, err)
					}
					for _, k := range l.Keys {
						listed = append(listed, k.Key)
					}
				}
				slices.Sort(listed)
				return slices.Equal(listed, slices.Sorted(slices.Values(keys)))
			})
		}
		var refused *shard.Error
		if _, err := c.nodes[0].admin.ListKeys(t.Context(), 99, shard.Listing{}); !errors.As(err, &refused) ||
			refused.Code != shard.Unavailable {
			t.Errorf("of a shard without a replica here: %v", err)
		}
	})
}
