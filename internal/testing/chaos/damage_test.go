//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestAWipedDiskIsSeededAgain: a node that lost everything comes back under its name. Its former data must not be taken
// for its current data: it gets new replicas, and votes only with those (R12a).
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

// logToDamage is the least size of a log that is damaged.
const logToDamage = 128 << 10

// awaitLog waits until there is a log of that size below a directory.
func awaitLog(ctx context.Context, dir string, least int64) error {
	for {
		grown := false
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
				return err
			}
			info, err := d.Info()
			grown = grown || err == nil && info.Size() >= least
			return err
		})
		if grown {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a node removes old files
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// TestFlippedBytesStopOneNode: a node with a log damaged on disk, one bit of each file, never answers from it (G12).
// The others continue to serve, and the node comes back when its data is removed. (Behind the newest mark of the log's
// end, which is at most a second old, damage looks like the torn end of a write that was never acknowledged.)
func TestFlippedBytesStopOneNode(t *testing.T) {
	c := newCluster(t)
	result := mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: seed(t)}, func(ctx context.Context) error {
		if err := awaitLog(ctx, c.Dir(2), logToDamage); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil { // until a mark is behind what will be damaged
			return err
		}
		if err := c.Kill(2); err != nil {
			return err
		}
		if files, err := c.Corrupt(2, "*.log", logToDamage); files == 0 || err != nil {
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
