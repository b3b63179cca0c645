//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestStorm: three nodes, 16 clients that contend for limits of 1000, others that spend from leases, and all faults,
// two at a time: SIGKILL of one node or of all, SIGSTOP for up to 8 s, links cut one way, both ways and in a ring,
// orderly restarts, disks that are full, fail or are slow, clocks that jump; meanwhile a cluster of one shard grows to
// three, then to five, shrinks to two, and to one, again and again. STINT_CHAOS_DURATION makes it longer than a minute.
func TestStorm(t *testing.T) {
	duration := setting(t, "STINT_CHAOS_DURATION", time.Minute, time.ParseDuration)
	c, s := newClusterWith(t, testcluster.Options{Policies: clusterPolicies, Shards: 1}), seed(t)
	faults := map[testcluster.Fault]int{}
	result := mustVerify(t, c, verify.Plan{Rate: 2000, IDs: 50, Seed: s, Leases: clusterLeases},
		func(context.Context) (err error) {
			faults, err = stormAndMoves(t, c, []uint32{3, 5, 2}, duration, testcluster.Storm{
				AtOnce: 2, Rest: time.Second, Seed: s, Sound: sound(c), Faults: []testcluster.Fault{
					testcluster.FaultKill, testcluster.FaultKillAll, testcluster.FaultPause, testcluster.FaultCut,
					testcluster.FaultRestart, testcluster.FaultDisk, testcluster.FaultClock,
				},
			})
			return err
		})
	total := 0
	for _, n := range faults {
		total += n
	}
	t.Logf("%d faults: %v", total, faults)
	if least := int(duration / (3750 * time.Millisecond)); total < least {
		t.Errorf("%d faults in %v, want %d", total, duration, least)
	}
	if least := duration.Seconds() * stormRate; float64(result.Operations) < least {
		t.Errorf("%d operations in %v prove little, want %.0f", result.Operations, duration, least)
	}
	if back := micros(result.BackMicros); back == 0 || back > backPatience {
		t.Errorf("a shard answered %v after the faults were over, want %v at most", back, backPatience)
	}
}

// TestShortStorm is for every change: some faults, one after the other, while a cluster of one shard grows to three,
// and back. Its verdict is about counts alone, however slow the machine is.
func TestShortStorm(t *testing.T) {
	c, s := newClusterWith(t, testcluster.Options{Policies: clusterPolicies, Shards: 1}), seed(t)
	mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: s, Leases: clusterLeases}, func(context.Context) error {
		faults, err := stormAndMoves(t, c, []uint32{3}, 25*time.Second,
			testcluster.Storm{Rest: time.Second, Longest: 2 * time.Second, Seed: s,
				Faults: []testcluster.Fault{testcluster.FaultKill, testcluster.FaultPause, testcluster.FaultCut,
					testcluster.FaultRestart}})
		t.Logf("faults: %v", faults)
		return err
	})
}

// The command has the slots of a running cluster move to more shards, and back. Those that it adds stay.
func TestVerifyMovesSlots(t *testing.T) {
	c := newServer(t, clusterPolicies)
	before, unknown := statusOf(t.Context(), c.Addr(0))
	if err := stint(t.Context(), "tool", "verify", "--addr", "http://"+c.Addr(0), "--policy", "day",
		"--duration", "300ms", "--keys", "4", "--workers", "8", "--shards", fmt.Sprint(manyShards+1)); err != nil {
		t.Error(err)
	}
	after, err := statusOf(t.Context(), c.Addr(0))
	if err := errors.Join(unknown, err); err != nil || len(after.Shards) != len(before.Shards)+1 {
		t.Errorf("of %d shards it made %d: %v", len(before.Shards), len(after.Shards), err)
	}
}

// stormAndMoves makes a storm, and meanwhile has slots move until so many shards share the keys, for each number, and
// back, again and again. When the storm is over, no more than the way back is left; but some slot moves, however slow
// the machine is.
func stormAndMoves(t *testing.T, c *testcluster.Cluster, shards []uint32, duration time.Duration, s testcluster.Storm) (
	faults map[testcluster.Fault]int, err error) {
	s.Tell = func(what string) { t.Logf("%s %s", time.Now().Format("15:04:05.000"), what) }
	moves := verify.Moves{Addresses: c.Addrs(), Shards: shards, Tell: s.Tell}
	ctx := within(t, duration)
	var moving sync.WaitGroup
	var slots int
	var unmoved error
	moving.Go(func() {
		slots, unmoved = moves.Repeat(ctx)
		for slots == 0 && unmoved == nil {
			slots, unmoved = moves.ThereAndBack(within(t, duration))
		}
	})
	faults, err = c.Storm(ctx, s)
	moving.Wait()
	t.Logf("%d slots moved", slots)
	return faults, errors.Join(err, unmoved)
}

// sound asks the cluster whether every shard has an owner and three copies, all of which vote.
func sound(c *testcluster.Cluster) func(context.Context) bool {
	whole := func(shard shardStatus) bool {
		voters := 0
		for _, r := range shard.Replicas {
			if r.Voter {
				voters++
			}
		}
		return voters == 3 && len(shard.Replicas) == 3 && shard.Owner != ""
	}
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		for i := range c.Len() {
			if s, err := statusOf(ctx, c.Addr(i)); err == nil {
				return len(s.Shards) > 0 && !slices.ContainsFunc(s.Shards, func(shard shardStatus) bool {
					return !whole(shard)
				})
			}
		}
		return false
	}
}

const (
	stormRate    = 100 // operations per second, at least
	backPatience = 10 * time.Second
)
