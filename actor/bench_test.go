package actor

import (
	"context"
	"fmt"
	"testing"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
)

// forgetfulReplica installs at once and keeps no log.
type forgetfulReplica struct{ *fakeReplica }

func (r forgetfulReplica) Propose(payload []byte) func() (shard.Outcome, error) {
	wait := r.fakeReplica.Propose(payload)
	r.guard.Lock()
	r.log = r.log[:0]
	r.guard.Unlock()
	return wait
}

// BenchmarkSubmit measures the path through the mailbox, the batch and the gate, over a log that takes no time. One
// caller submits the given number of checks of one key at once. ns and allocs are for all of them together. With top,
// the keys that stand out are counted.
func BenchmarkSubmit(b *testing.B) {
	for _, c := range []struct {
		size int
		note string
		top  *top.Budget
	}{{1, "", nil}, {1, ",top", top.NewBudget(0)}, {100, "", nil}, {100, ",top", top.NewBudget(0)}} {
		size := c.size
		b.Run(fmt.Sprintf("requests=%d%s", size, c.note), func(b *testing.B) {
			a := Start(0, forgetfulReplica{newFakeReplica()}, Config{Policies: revision(1, 1<<50), Top: c.top})
			defer a.Close(context.Background())
			requests := make([]shard.Request, size)
			for i := range requests {
				requests[i] = take("")
			}
			for !a.Open() {
				a.Submit(b.Context(), requests) // waits for the epoch
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, result := range a.Submit(b.Context(), requests) {
					if result.Err != nil || !result.Decision.Allowed {
						b.Fatalf("%+v", result)
					}
				}
			}
		})
	}
}
