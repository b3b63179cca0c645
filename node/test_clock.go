package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/shard"
)

// testClock is a clock that tests move forward; nil: there is none. Shard time moves with it, but no clock that
// measures how long something took. All methods may be called concurrently.
type testClock struct{ ahead atomic.Int64 } // of the machine's clock, in nanoseconds

func (c *testClock) now() time.Time { return time.Now().Add(c.aheadBy()) }

func (c *testClock) aheadBy() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.ahead.Load())
}

// testClockAdmin implements api.TestClock, for the cluster of this node alone. It may be called concurrently.
type testClockAdmin struct {
	clock  *testClock
	view   *clusterView
	router *routing.Router
}

// Advance implements api.TestClock. A read of each shard makes it decide at the new time.
func (a *testClockAdmin) Advance(ctx context.Context, by time.Duration) (time.Time, error) {
	a.clock.ahead.Add(int64(by))
	now := a.clock.now()
	reads := make([]shard.Request, a.view.shards())
	for id := range reads {
		reads[id] = shard.Request{Op: shard.ReadAudit, Shard: shard.ID(id)}
	}
	for _, r := range a.router.Decide(ctx, reads) {
		if r.Err != nil {
			return time.Time{}, r.Err
		}
	}
	return now, nil
}
