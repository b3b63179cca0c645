package node

import (
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// A node without its cluster still answers from its replicas, and says how old the answer may be; a read that demands
// more fails.
func TestStaleReadsOutliveTheMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		for _, key := range keys {
			if r := c.spend(0, key); r.Err != nil || !r.Decision.Allowed {
				t.Fatalf("%q: %+v", key, r)
			}
		}
		get := shard.Request{Op: shard.Get, Namespace: shard.DefaultNamespace}
		for _, key := range keys {
			get.Entries = append(get.Entries, shard.Entry{Policy: "stock", Key: key})
		}
		has := func() bool {
			d, behind, ok := c.nodes[0].stale.read(get)
			if !ok || len(d.Limits) != len(keys) || behind < 0 || d.DecidedAt == 0 {
				return false
			}
			for _, l := range d.Limits {
				if l.Used != 1 {
					return false // the replica has not heard of it yet
				}
			}
			return true
		}
		c.await("a replica of every shard with its count", func(*stintv1.StatusResponse) bool { return has() })
		c.stop(1)
		c.stop(2)
		if !has() {
			t.Error("without the others the replicas cannot be read")
		}
		// As after a move to shard 1 that its replica has not heard of.
		one := get
		one.Entries = get.Entries[:1]
		if r, ok := c.nodes[0].stale.readOne(1, one, slot.Even(4)); !ok || r.Err == nil || r.Err.Code != shard.Moved {
			t.Errorf("a replica without the slot of a key says %+v", r)
		}
		get.Entries = []shard.Entry{{Policy: "absent", Key: "k"}}
		if _, _, ok := c.nodes[0].stale.read(get); ok {
			t.Error("a policy that there is none of was read")
		}
	})
}
