//go:build chaos

package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestStorm: three nodes, 16 clients that contend for limits of 1000, and all faults, two at a time: SIGKILL, SIGSTOP
// for up to 8 s, links cut one way, both ways and in a ring, orderly restarts, fdatasync that fails or is slow, clocks
// that jump. STINT_CHAOS_DURATION makes it longer than a minute.
func TestStorm(t *testing.T) {
	duration := setting(t, "STINT_CHAOS_DURATION", time.Minute, time.ParseDuration)
	c, s := newCluster(t), seed(t)
	faults := map[testcluster.Fault]int{}
	result := mustVerify(t, c, verify.Plan{Rate: 2000, IDs: 50, Seed: s}, func(context.Context) (err error) {
		faults, err = c.Storm(within(t, duration), testcluster.Storm{AtOnce: 2, Rest: time.Second, Seed: s, Sound: sound(c),
			Faults: []testcluster.Fault{testcluster.FaultKill, testcluster.FaultPause, testcluster.FaultCut, testcluster.FaultRestart, testcluster.FaultDisk, testcluster.FaultClock},
			Tell:   func(what string) { t.Logf("%s %s", time.Now().Format("15:04:05.000"), what) }})
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

// TestShortStorm is for every change: some faults, one after the other. Its verdict is about counts alone, however slow
// the machine is.
func TestShortStorm(t *testing.T) {
	c, s := newCluster(t), seed(t)
	mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: s}, func(context.Context) error {
		faults, err := c.Storm(within(t, 25*time.Second), testcluster.Storm{Rest: time.Second, Longest: 2 * time.Second, Seed: s,
			Faults: []testcluster.Fault{testcluster.FaultKill, testcluster.FaultPause, testcluster.FaultCut, testcluster.FaultRestart},
			Tell:   func(what string) { t.Log(what) }})
		t.Logf("faults: %v", faults)
		return err
	})
}

// sound asks the cluster whether every node has a voting copy of every shard.
func sound(c *testcluster.Cluster) func(context.Context) bool {
	whole := votersOn(c.Name(0), c.Name(1), c.Name(2))
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		for i := range c.Len() {
			if s, err := statusOf(ctx, c.Addr(i)); err == nil {
				return whole(s) == ""
			}
		}
		return false
	}
}

const (
	stormRate    = 100 // operations per second, at least
	backPatience = 10 * time.Second
)
