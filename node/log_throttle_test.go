package node

import (
	"testing"
	"time"
)

func TestTheSameComplaintIsMadeAgainOnlyAfterAWhile(t *testing.T) {
	var c logThrottle
	now := time.Now()
	for _, step := range []struct {
		about string
		after time.Duration
		due   bool
	}{
		{"shard 1", 0, true},
		{"shard 1", time.Second, false},
		{"shard 2", time.Second, true},
		{"shard 1", complainEvery - 1, false},
		{"shard 1", complainEvery, true},
		{"shard 1", complainEvery + time.Second, false},
		{"shard 1", -time.Hour, true}, // the clock was set back: complaints must not stop for an hour
	} {
		if due := c.due(step.about, now.Add(step.after)); due != step.due {
			t.Errorf("%s after %v: due is %v", step.about, step.after, due)
		}
	}
}
