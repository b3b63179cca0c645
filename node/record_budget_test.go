package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// takeOn counts new keys on a shard. Their names begin with a word.
func takeOn(t *testing.T, n *Node, id shard.ID, word string, most int) (counted int, full bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	requests := make([]shard.Request, most)
	for i := range requests {
		requests[i] = shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: "plenty", Key: fmt.Sprintf("%s %d {%s}", word, i, keyOn(n, id)), Cost: 1}}}
	}
	for _, r := range n.Decide(ctx, requests) {
		switch {
		case r.Err == nil:
			counted++
		case r.Err.Code == shard.MemoryFull && !r.Err.MaybeApplied():
			full = true
		default:
			t.Fatal(r.Err)
		}
	}
	return counted, full
}

// TestTheShardsOfANodeShareItsMemory: one may use all of it, and then the other takes no new key either. Known keys go
// on.
func TestTheShardsOfANodeShareItsMemory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.World.Memory = 8 << 20
		n := start(t, config)
		defer stop(t, n)
		takeOn(t, n, 1, "first", 1)
		for round, full := 0, false; !full; round++ {
			_, full = takeOn(t, n, 0, fmt.Sprint("round ", round), 500)
		}
		most, used := n.config.World.Memory/2, n.replicas.recordBytes()
		if alone := n.replicas.of(0).group.RecordBytes(); int64(used) > most || int64(alone) < most*6/8 {
			t.Errorf("%d bytes of %d are used, %d by the shard that fills them", used, most, alone)
		}
		if counted, full := takeOn(t, n, 1, "second", 1); counted > 0 || !full {
			t.Errorf("the other shard counts %d new keys; full: %v", counted, full)
		}
		if counted, _ := takeOn(t, n, 1, "first", 1); counted != 1 {
			t.Error("a known key of the other shard is refused")
		}
		m := n.reporter.ownReport().Machine
		if m.RecordBytes != uint64(used) || m.RecordLimit != uint64(most) {
			t.Errorf("the report says %d of %d bytes", m.RecordBytes, m.RecordLimit)
		}
	})
}

// TestTheFullestCopyRefusesNewKeys: a new key has a copy on each node, so no owner admits more than the node of least
// memory takes.
func TestTheFullestCopyRefusesNewKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 3)
		c.configs[1].World.Memory = 8 << 20
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		round := 0
		await.Until(t, "no shard takes a new key", func() bool {
			round++
			refused := 0
			for id := range shard.ID(3) {
				if counted, _ := takeOn(t, c.nodes[0], id, fmt.Sprint("round ", round), 100); counted == 0 {
					refused++
				}
			}
			return refused == 3
		})
		if used, most := c.nodes[1].replicas.recordBytes(), c.nodes[1].opener.budget.most; used > most {
			t.Errorf("the node of least memory has %d bytes of records, of %d", used, most)
		}
	})
}
