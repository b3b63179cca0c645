package actor

import (
	"context"
	"fmt"
	"testing"

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

// BenchmarkSubmit measures the path through the mailbox, the batch and the gate, over a log that takes no time. One caller
// submits the given number of checks of one key at once. ns and allocs are for all of them together.
func BenchmarkSubmit(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("requests=%d", size), func(b *testing.B) {
			a := Start(0, forgetfulReplica{newFakeReplica()}, Config{Policies: revision(1, 1<<50)})
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
