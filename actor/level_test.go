package actor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// A batch is stamped with the level at its time: its content is no newer than every voter can read, and the level may rise
// while an epoch is open.
func TestABatchIsStampedWithTheLevelOfItsMoment(t *testing.T) {
	level := shard.LevelFirst
	q := newSequencer(3, Config{Level: func() shard.Level { return level }}.withDefaults())
	if at := q.stamp(1); at.Level != shard.LevelFirst {
		t.Errorf("the first batch is stamped with level %d", at.Level)
	}
	level = shard.LevelSound
	if at := q.stamp(2); at.Level != shard.LevelSound {
		t.Errorf("after the rise a batch is stamped with level %d", at.Level)
	}
	if q = newSequencer(3, Config{}.withDefaults()); q.stamp(1).Level != shard.LevelNewest {
		t.Errorf("without a cluster a batch is stamped with level %d", q.stamp(1).Level)
	}
}

// 0.1.0 halts at a sum entry that it cannot read, and at one of its own kind that differs. It gets neither.
func TestNoSumIsLoggedWhileAVoterMayBeOfTheFirstLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var level atomic.Uint32
		level.Store(uint32(shard.LevelFirst))
		r := newFakeReplica()
		a := startActor(t, r, 1000, func(c *Config) {
			c.SumEvery = 10
			c.Level = func() shard.Level { return shard.Level(level.Load()) }
		})
		for range 35 {
			one(t, a, take(""))
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if _, batches, sums := r.kinds(); batches != 35 || sums != 0 {
			t.Fatalf("%d batches and %d sum entries at the first level, must be 35 and none", batches, sums)
		}
		level.Store(uint32(shard.LevelSound))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, _, sums := r.kinds(); sums != 1 {
			t.Fatalf("%d sum entries when the level has risen, must be 1", sums)
		}
	})
}
