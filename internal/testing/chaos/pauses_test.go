//go:build chaos

package chaos

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// elections counts the epochs that the shards of a cluster open.
type elections struct {
	epochs      map[uint32]uint64 // of each shard, the newest that was seen
	owners      map[uint32]string
	count       int
	unexplained []time.Time // when, of those for which no disk stood still in the minute before or after
}

// diskStalled is raftfsm's heartbeat timeout: a group sends nothing while a write of its log takes longer, so that
// another node is elected.
const diskStalled = 650 * time.Millisecond

// look asks the nodes until one answers.
func (e *elections) look(ctx context.Context, t *testing.T, c *testcluster.Cluster) {
	for i := range c.Len() {
		s, err := statusOf(ctx, c.Addr(i))
		if err != nil {
			continue
		}
		for _, shard := range s.Shards {
			if was, known := e.epochs[shard.ID]; known && shard.Epoch > was {
				e.count++
				e.unexplained = append(e.unexplained, time.Now())
				t.Logf("%s: shard %d of %s was opened by %s",
					time.Now().Format("15:04:05.000"), shard.ID, e.owners[shard.ID], shard.Owner)
			}
			if shard.Epoch > e.epochs[shard.ID] {
				e.epochs[shard.ID], e.owners[shard.ID] = shard.Epoch, shard.Owner
			}
		}
		for _, n := range s.Nodes {
			if took, _ := time.ParseDuration(n.Machine.LogWriteSlowest); took > diskStalled && len(e.unexplained) > 0 {
				t.Logf("%s: a write of the log took %v in the last minute", n.ID, took)
				e.unexplained = slices.DeleteFunc(e.unexplained, func(at time.Time) bool { return time.Since(at) < time.Minute })
			}
		}
		return
	}
}

// TestShortPausesElectNobody: under load, nodes that stand still for less than 300 ms keep their shards. A disk that
// stands still for longer than an election takes is another matter: the machine's own does so now and then.
// STINT_CHAOS_DURATION makes it longer than a minute.
func TestShortPausesElectNobody(t *testing.T) {
	duration := setting(t, "STINT_CHAOS_DURATION", time.Minute, time.ParseDuration)
	c, s := newCluster(t), seed(t)
	e := &elections{epochs: map[uint32]uint64{}, owners: map[uint32]string{}}
	starting := within(t, time.Minute)
	for quiet, seen := 0, 0; quiet < 10; quiet++ { // until the shards are spread over their owners
		if e.look(starting, t, c); e.count > seen {
			quiet, seen = 0, e.count
		}
		if err := pause(starting, time.Second); err != nil {
			t.Fatalf("shards change their owners: %v", err)
		}
	}
	if e.count, e.unexplained = 0, nil; len(e.epochs) != manyShards+1 {
		t.Fatalf("the epochs of %d shards are known", len(e.epochs))
	}
	mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: s}, func(context.Context) error {
		ctx := within(t, duration)
		var watching sync.WaitGroup
		watching.Go(func() {
			for pause(ctx, time.Second) == nil {
				e.look(ctx, t, c)
			}
		})
		faults, err := c.Storm(ctx, testcluster.Storm{Rest: time.Second, Longest: 300 * time.Millisecond, Seed: s,
			Faults: []testcluster.Fault{testcluster.FaultPause}})
		watching.Wait()
		e.look(within(t, 5*time.Second), t, c)
		t.Logf("%d pauses of 200 to 300 ms in %v, %d elections, %d without a disk that stood still",
			faults[testcluster.FaultPause], duration, e.count, len(e.unexplained))
		return err
	})
	if len(e.unexplained) > 0 {
		t.Errorf("%d elections, want none: no node died, and no disk stood still", len(e.unexplained))
	}
}
