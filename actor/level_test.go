package actor

import (
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// A batch is stamped with the level at its time: its content is no newer than every voter can read, and the level may
// rise while an epoch is open.
func TestABatchIsStampedWithTheLevelOfItsMoment(t *testing.T) {
	level := shard.LevelFirst
	q := newSequencer(3, Config{Level: func() shard.Level { return level }}.withDefaults())
	if at := q.stamp(1); at.Level != shard.LevelFirst {
		t.Errorf("the first batch is stamped with level %d", at.Level)
	}
	level++
	if at := q.stamp(2); at.Level != level {
		t.Errorf("after the rise a batch is stamped with level %d", at.Level)
	}
	for name, entry := range map[string][]byte{"epoch": q.openEpoch(3, time.Time{}), "sum": q.nextSum(4, time.Time{})} {
		if entry[0] != byte(level) {
			t.Errorf("the entry of the %s is of level %d", name, entry[0])
		}
	}
	if q = newSequencer(3, Config{}.withDefaults()); q.stamp(1).Level != shard.LevelNewest {
		t.Errorf("without a cluster a batch is stamped with level %d", q.stamp(1).Level)
	}
}
