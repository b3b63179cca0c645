//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/shard"
)

// elections counts the epochs that the shards of a cluster open.
type elections struct {
	epochs      map[shard.ID]uint64 // of each shard, the newest that was seen
	owners      map[shard.ID]string
	count       int
	unexplained []time.Time // when, of those beside which no disk and no machine stood still
}

// explain takes out the elections that were seen near an instant.
func (e *elections) explain(at time.Time, within time.Duration) {
	e.unexplained = slices.DeleteFunc(e.unexplained, func(seen time.Time) bool { return seen.Sub(at).Abs() < within })
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
		for _, now := range s.Shards {
			id := shard.ID(now.ID)
			if was, known := e.epochs[id]; known && now.Epoch > was {
				e.count++
				e.unexplained = append(e.unexplained, time.Now())
				t.Logf("%s: shard %v of %s was opened by %s:\n%s", time.Now().Format(clock), id, e.owners[id], now.Owner,
					sayings(c, id, time.Now().Add(-5*time.Second)))
			}
			if now.Epoch > e.epochs[id] {
				e.epochs[id], e.owners[id] = now.Epoch, now.Owner
			}
		}
		for _, n := range s.Nodes {
			if took, _ := time.ParseDuration(n.Machine.LogWriteSlowest); took > diskStalled && len(e.unexplained) > 0 {
				t.Logf("%s: a write of the log took %v in the last minute", n.ID, took)
				e.explain(time.Now(), time.Minute)
			}
		}
		return
	}
}

// clock is the time of day of log lines.
const clock = "15:04:05.000"

// sayings returns what the nodes have logged about the elections of a shard since an instant.
func sayings(c *testcluster.Cluster, id shard.ID, since time.Time) string {
	var all strings.Builder
	for i := range c.Len() {
		for line := range strings.Lines(c.Log(i)) {
			_, stamp, _ := strings.Cut(line, "time=")
			stamp, _, _ = strings.Cut(stamp, " ")
			at, err := time.Parse(time.RFC3339, stamp)
			if err == nil && at.After(since) && strings.Contains(line, " shard="+id.String()+" ") {
				fmt.Fprintf(&all, "    %s: %s", c.Name(i), line)
			}
		}
	}
	return all.String()
}

// standstills watches whether this process is held up for longer than late, and returns when it was. The nodes of its
// machine are held up with it, and a pause lasts until it can end it.
func standstills(ctx context.Context, t *testing.T) (all []time.Time) {
	const every, late = 10 * time.Millisecond, 100 * time.Millisecond
	for before := time.Now(); pause(ctx, every) == nil; before = time.Now() {
		if stood := time.Since(before) - every; stood > late {
			t.Logf("%s: the machine stood still for %v", time.Now().Format(clock), stood)
			all = append(all, time.Now())
		}
	}
	return all
}

// TestShortPausesElectNobody: under load, nodes that stand still for less than 300 ms keep their shards. A disk that
// stands still for longer than an election takes is another matter, and so is a machine that stands still beside a
// pause: both do so now and then. STINT_CHAOS_DURATION makes it longer than a minute.
func TestShortPausesElectNobody(t *testing.T) {
	duration := setting(t, "STINT_CHAOS_DURATION", time.Minute, time.ParseDuration)
	s := seed(t)
	c := newClusterWith(t, testcluster.Options{Policies: clusterPolicies, Args: []string{"--log-level", "debug"}})
	e := &elections{epochs: map[shard.ID]uint64{}, owners: map[shard.ID]string{}}
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
		var stood []time.Time
		watching.Go(func() { stood = standstills(ctx, t) })
		watching.Go(func() {
			for pause(ctx, time.Second) == nil {
				e.look(ctx, t, c)
			}
		})
		faults, err := c.Storm(ctx, testcluster.Storm{Rest: time.Second, Longest: 300 * time.Millisecond, Seed: s,
			Faults: []testcluster.Fault{testcluster.FaultPause}})
		watching.Wait()
		e.look(within(t, 5*time.Second), t, c)
		for _, at := range stood {
			e.explain(at, 5*time.Second)
		}
		t.Logf("%d pauses of 200 to 300 ms in %v, %d elections, %d while no disk and no machine stood still",
			faults[testcluster.FaultPause], duration, e.count, len(e.unexplained))
		return err
	})
	if len(e.unexplained) > 0 {
		t.Errorf("%d elections, want none: no node died, and nothing stood still for longer", len(e.unexplained))
	}
}
