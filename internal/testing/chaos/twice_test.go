//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestAnIDIsUsedTwice starts second processes under the id of a node, under load: with an empty directory, with a copy
// of the node's, and in the place of a node that is paused and wakes beside it. The one that is not the node ends by
// itself with exit code 2 and a sentence, no shard is left without an owner, and no count is wrong.
func TestAnIDIsUsedTwice(t *testing.T) {
	c := newClusterWith(t, testcluster.Options{Policies: clusterPolicies, Direct: true})
	whole := votersOn(c.Name(0), c.Name(1), c.Name(2))
	mustVerify(t, c, verify.Plan{Rate: 500, IDs: 50, Seed: seed(t)}, func(context.Context) error {
		if err := awaitStatus(t, c.Addr(1), time.Minute, whole); err != nil {
			return err
		}
		if err := refused(t, testcluster.Twin(within(t, time.Minute), c, 0, t.TempDir())); err != nil {
			return fmt.Errorf("an empty directory: %w", err)
		}
		copied, err := copyOf(t, c)
		if err != nil {
			return err
		}
		if err := refused(t, testcluster.Twin(within(t, time.Minute), c, 0, copied)); err != nil {
			return fmt.Errorf("a copy: %w", err)
		}
		if err := awaitStatus(t, c.Addr(1), time.Minute, namesTheID); err != nil {
			return err
		}
		return wakesBesideItsSuccessor(t, c, whole)
	})
	if err := awaitStatus(t, c.Addr(1), time.Minute, whole); err != nil {
		t.Error(err)
	}
}

// refused runs a second process, which must end by itself.
func refused(t *testing.T, second *exec.Cmd) error {
	t.Helper()
	var said bytes.Buffer
	second.Stderr = &said
	if err := second.Start(); err != nil {
		return err
	}
	err := second.Wait()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	t.Logf("%v: %s", err, lines[len(lines)-1])
	if second.ProcessState.ExitCode() != 2 || !strings.Contains(lines[len(lines)-1], "stint: its node id is taken") {
		return fmt.Errorf("%w\n%s", err, said.String())
	}
	return nil
}

// copyOf stops the first node for the time of a copy of its directory.
func copyOf(t *testing.T, c *testcluster.Cluster) (dir string, err error) {
	dir = t.TempDir()
	if err := c.Terminate(within(t, time.Minute), 0); err != nil {
		return "", err
	}
	err = os.CopyFS(filepath.Join(dir, "data"), os.DirFS(c.Dir(0)))
	err = errors.Join(err, c.Restart(0))
	return dir, errors.Join(err, c.AwaitReady(within(t, time.Minute)))
}

func namesTheID(s status) string {
	if len(s.Problems) == 0 || !strings.HasPrefix(s.Problems[0], "node id n1 is used twice") {
		return fmt.Sprintf("the status does not name the id: %q", s.Problems)
	}
	return ""
}

// wakesBesideItsSuccessor pauses the first node until another process is that node, and lets it wake.
func wakesBesideItsSuccessor(t *testing.T, c *testcluster.Cluster, whole func(status) string) error {
	if err := c.Pause(0); err != nil {
		return err
	}
	successor := testcluster.Twin(within(t, 3*time.Minute), c, 0, t.TempDir())
	if err := successor.Start(); err != nil {
		return err
	}
	defer successor.Wait()
	defer successor.Process.Kill()
	if err := awaitStatus(t, c.Addr(1), time.Minute, func(s status) string {
		for _, shard := range s.Shards {
			for _, r := range shard.Replicas {
				if r.Node == c.Name(0) && r.Number == 1 {
					return "the first node's replicas are not replaced"
				}
			}
		}
		return whole(s)
	}); err != nil {
		return err
	}
	c.MayEnd(0)
	if err := c.Resume(0); err != nil {
		return err
	}
	code, err := c.AwaitExit(within(t, time.Minute), 0)
	if err == nil && code != 2 {
		err = fmt.Errorf("the node that was replaced ended with status %d", code)
	}
	if err != nil {
		return err
	}
	successor.Process.Kill()
	return errors.Join(c.Restart(0), c.AwaitReady(within(t, 2*time.Minute), 0))
}
