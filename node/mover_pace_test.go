package node

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// movedWithin is when a slot moved: from its first step to its last.
type movedWithin struct{ from, to time.Time }

// TestMovesLeaveTimeForCallers: after each, no other begins for three times as long as it took.
func TestMovesLeaveTimeForCallers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.Shards = 1
		n := start(t, config)
		defer stop(t, n)
		var mu sync.Mutex
		moves := make(map[slot.ID]movedWithin)
		submit := n.reconciler.mover.submit
		n.reconciler.mover.submit = func(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
			terms := requests[0].System.Move
			mu.Lock()
			m := moves[terms.Slot]
			if terms.Step == shard.MovePrepare {
				m.from = time.Now()
			}
			mu.Unlock()
			time.Sleep(time.Duration(1+terms.Slot%7) * 5 * time.Millisecond)
			results := submit(ctx, id, requests)
			mu.Lock()
			defer mu.Unlock()
			if terms.Step == shard.MoveDrop {
				m.to = time.Now()
			}
			moves[terms.Slot] = m
			return results
		}
		if err := n.admin.SetShards(t.Context(), 2, nil); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "some slots have moved", func() bool { return n.view.slots().Owned(1) > 40 })
		mu.Lock()
		defer mu.Unlock()
		for a, before := range moves {
			for b, after := range moves {
				took := before.to.Sub(before.from)
				if rest := after.from.Sub(before.to); !before.to.IsZero() && rest > 0 && rest < moveRest*took {
					t.Errorf("slot %d moved for %v, and slot %d begins after %v", a, took, b, rest)
				}
			}
		}
	})
}
