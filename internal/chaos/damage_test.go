//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testcluster"
	"github.com/stint-io/stint/internal/verify"
)

// TestAWipedDiskIsSeededAgain: a node that lost everything comes back under its name. Its former data must not be taken for
// its current data: it gets new replicas, and votes only with those (R12a).
func TestAWipedDiskIsSeededAgain(t *testing.T) {
	c := newCluster(t)
	mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: seed(t)}, func(ctx context.Context) error {
		if err := c.Kill(2); err != nil {
			return err
		}
		return wipeAndRejoin(t, c, 2)
	})
}

func wipeAndRejoin(t *testing.T, c *testcluster.Cluster, i int) error {
	if err := c.Wipe(i); err != nil {
		return err
	}
	if err := c.Restart(i); err != nil {
		return err
	}
	ready(t, c, i)
	return awaitStatus(t, c.Addr(i), 30*time.Second, votersOn(c.Name(0), c.Name(1), c.Name(2)))
}

// TestFlippedBytesStopOneNode: a node whose log was damaged on disk, one bit of each file, never answers from it (G12). The
// others continue to serve, and the node comes back when its data is removed. (Behind the newest mark of the log's end, which
// is at most a second old, damage cannot be told from the torn end of a write that was never acknowledged.)
func TestFlippedBytesStopOneNode(t *testing.T) {
	c := newCluster(t)
	result := mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: seed(t)}, func(ctx context.Context) error {
		time.Sleep(4 * time.Second) // so that there is a log to damage
		if err := c.Kill(2); err != nil {
			return err
		}
		if files, err := c.Corrupt(2, "*.log", 128<<10); files == 0 || err != nil {
			return fmt.Errorf("%d files were damaged: %w", files, err)
		}
		if err := c.Restart(2); err != nil {
			return err
		}
		c.MayEnd(2)
		ending, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		code, err := c.AwaitExit(ending, 2)
		if err != nil {
			return errors.Join(errors.New("a node with damaged logs serves on"), err)
		}
		if code != testcluster.ExitUntrusted {
			return fmt.Errorf("a node with damaged logs ended with %d, want %d", code, testcluster.ExitUntrusted)
		}
		return wipeAndRejoin(t, c, 2)
	})
	if float64(result.Operations) < result.Seconds*100 {
		t.Errorf("%d operations in %.0f s: the others did not serve on", result.Operations, result.Seconds)
	}
}
