package actor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// Nothing is decided from records that cannot be trusted, and queued requests are refused with the reason. Sums are
// logged meanwhile: from them the replicas learn which records are right.
func TestAStoppedShardDecidesNothingAndLogsItsSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Pointer[shard.Error]
		r := newFakeReplica()
		a := startActor(t, r, 1000, func(c *Config) { c.Stopped = stopped.Load })
		mustSay(t, one(t, a, take("")), "allowed")
		why := &shard.Error{Code: shard.Unavailable, Message: "its replicas differ"}
		stopped.Store(why)
		for _, op := range []shard.Op{shard.Check, shard.Get} {
			request := take("")
			request.Op = op
			if result := one(t, a, request); result.Err != why {
				t.Errorf("operation %d: %+v", op, result)
			}
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if _, batches, sums := r.kinds(); batches != 1 || sums != 2 || !a.Open() {
			t.Errorf("%d batches, %d sum entries, open %v: must be 1, 2, true", batches, sums, a.Open())
		}
		stopped.Store(nil)
		mustSay(t, one(t, a, take("")), "allowed")
	})
}
