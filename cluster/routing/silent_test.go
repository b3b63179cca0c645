package routing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// forwarding is a function that forwards.
type forwarding func(ctx context.Context, node string) *shard.Error

// Submit implements Forwarder.
func (f forwarding) Submit(
	ctx context.Context, node string, _ int, _ shard.ID, requests []shard.Request,
) []shard.Result {
	if err := f(ctx, node); err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	results := make([]shard.Result, len(requests))
	for i := range results {
		results[i].Decision.Allowed = true
	}
	return results
}

// A node that hangs takes all the time of a caller that has nothing to go by but a list of nodes, as an edge. The next
// caller asks another node first, however many noticed the silence at once.
func TestWhoHangsIsNotAskedFirstAgain(t *testing.T) {
	for name, hang := range map[string]struct {
		code     shard.Code
		toTheEnd bool // of the caller's time; else for a second
	}{"it was not sent": {shard.Overloaded, true}, "no answer came": {shard.UnknownOutcome, true},
		"no connection came": {shard.Unavailable, false}, "the connection broke": {shard.UnknownOutcome, false}} {
		for callers := 1; callers < 5; callers++ {
			synctest.Test(t, func(t *testing.T) {
				r := New(Config{
					Slots:    evenly(1),
					Places:   func(shard.ID) []string { return []string{"n1", "n2", "n3"} },
					Local:    func(shard.ID) (Owner, bool) { return nil, false },
					Leader:   func(shard.ID) string { return "" },
					Hints:    gossip.NewHints(1),
					Sessions: func(shard.ID) bool { return false },
					Forward: forwarding(func(ctx context.Context, node string) *shard.Error {
						switch {
						case node != "n1":
							return nil
						case hang.toTheEnd:
							<-ctx.Done()
						default:
							time.Sleep(time.Second)
						}
						return failure(hang.code)
					}),
				})
				ask := func() []shard.Result {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					return r.Decide(ctx, []shard.Request{check("k")})
				}
				var first sync.WaitGroup
				for range callers {
					first.Go(func() { ask() })
				}
				first.Wait()
				begun := time.Now()
				wantAllowed(t, name, ask())
				if took := time.Since(begun); took > 0 {
					t.Errorf("%s, to %d callers: the next one waited for %v", name, callers, took)
				}
			})
		}
	}
}
