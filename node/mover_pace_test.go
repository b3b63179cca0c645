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

// TestMovesLeaveTimeForCallers: when a slot has been copied, and when a part of it has been removed, no other move
// begins, and no other part is removed, for three times as long as that took.
func TestMovesLeaveTimeForCallers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.Shards = 1
		n := start(t, config)
		defer stop(t, n)
		type work struct{ from, to time.Time }
		var (
			mu     sync.Mutex
			works  []work
			begun  []time.Time // moves, and removals of parts
			frozen = make(map[slot.ID]time.Time)
		)
		submit := n.reconciler.mover.submit
		n.reconciler.mover.submit = func(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
			terms, from := requests[0].System.Move, time.Now()
			time.Sleep(time.Duration(1+terms.Slot%7) * 5 * time.Millisecond)
			results := submit(ctx, id, requests)
			mu.Lock()
			defer mu.Unlock()
			switch terms.Step {
			case shard.MovePrepare:
				begun = append(begun, from)
			case shard.MoveFreeze:
				frozen[terms.Slot] = time.Now()
			case shard.MoveTake:
				works = append(works, work{frozen[terms.Slot], time.Now()})
			case shard.MoveDrop:
				begun = append(begun, from)
				works = append(works, work{from, time.Now()})
			}
			return results
		}
		if err := n.admin.SetShards(t.Context(), 2, nil); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "some slots have moved", func() bool { return n.view.slots().Owned(1) > 40 })
		mu.Lock()
		defer mu.Unlock()
		for _, w := range works {
			for _, at := range begun {
				took := w.to.Sub(w.from)
				if rest := at.Sub(w.to); rest > 0 && rest < moveRest*took {
					t.Errorf("%v after %v of work there is more", rest, took)
				}
			}
		}
	})
}
