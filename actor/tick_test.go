package actor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// Shards that were opened at different times wake at the same instants while nothing is asked, one tick apart.
func TestIdleShardsOfANodeTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards, every, watched = 8, 100 * time.Millisecond, 20
		var mu sync.Mutex
		woke := make(map[time.Time]int)
		for range shards {
			time.Sleep(every / (shards + 2))
			startActor(t, newFakeReplica(), 1000, func(c *Config) {
				c.OpenEvery = every
				c.Stopped = func() *shard.Error { // asked whenever the loop wakes
					mu.Lock()
					defer mu.Unlock()
					woke[time.Now()]++
					return nil
				}
			})
		}
		time.Sleep(every) // their epochs are open
		mu.Lock()
		clear(woke)
		mu.Unlock()
		time.Sleep(watched * every)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(woke) < watched || len(woke) > watched+1 {
			t.Errorf("%d shards woke at %d instants in %d ticks", shards, len(woke), watched)
		}
		for at, n := range woke {
			if n < shards {
				t.Errorf("%d of %d shards woke at %v", n, shards, at)
			}
		}
	})
}
