//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testcluster"
	"github.com/stint-io/stint/internal/verify"
)

// politeClients send 500 operations per second, each with a deadline of 2 s and without an id. They know all nodes, and try
// another one only where nothing can have been counted: the connection was refused, or the node said unavailable.
func politeClients(seed uint64) verify.Plan {
	return verify.Plan{Rate: 500, Workers: 64, Deadline: 2 * time.Second, Seed: seed}
}

// failsNobody checks that every operation was answered in time.
func failsNobody(t *testing.T, r *verify.Result) {
	t.Helper()
	if r.Missed+r.Unknown != 0 {
		t.Errorf("%d of %d operations failed, want none; attempts: %v", r.Missed, r.Operations, describe(r))
	}
	if r.Operations < 1000 {
		t.Errorf("%d operations prove little", r.Operations)
	}
	if r.KeysFull == 0 || r.Admitted != clusterQuota {
		t.Errorf("%d keys filled, admitted %d of %d", r.KeysFull, r.Admitted, clusterQuota)
	}
}

// TestRollingRestart: the nodes are stopped in order and started again, one after the other (G11).
func TestRollingRestart(t *testing.T) {
	c := newCluster(t)
	r := mustVerify(t, c, politeClients(seed(t)), func(ctx context.Context) error {
		for i := range c.Len() {
			if err := restart(ctx, c, i); err != nil {
				return err
			}
		}
		return nil
	})
	failsNobody(t, r)
}

func restart(ctx context.Context, c *testcluster.Cluster, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	if err := c.Terminate(ctx, i); err != nil {
		return err
	}
	if err := c.Restart(i); err != nil {
		return err
	}
	return c.AwaitReady(ctx)
}

// TestThreeFourThree: a fourth node joins, and one of the first three is removed for good. It stops by itself, in order.
func TestThreeFourThree(t *testing.T) {
	c := newCluster(t)
	r := mustVerify(t, c, politeClients(seed(t)), func(ctx context.Context) error {
		added, err := c.Add()
		if err != nil {
			return err
		}
		ready(t, c, added)
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		c.MayEnd(0)
		if err := stint(ctx, "remove-node", c.Name(0), "--addr", c.Addr(1)); err != nil {
			return err
		}
		if err := awaitStatus(t, c.Addr(1), 30*time.Second, votersOn(c.Name(1), c.Name(2), c.Name(added))); err != nil {
			return err
		}
		if code, err := c.AwaitExit(ctx, 0); err != nil || code != 1 {
			return fmt.Errorf("the removed node ended with status %d, %v", code, err)
		}
		return nil
	})
	failsNobody(t, r)
	s, err := statusOf(within(t, 5*time.Second), c.Addr(1))
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(s.Shards, func(shard shardStatus) bool { return shard.Owner == c.Name(0) }) {
		t.Errorf("the removed node owns a shard: %+v", s.Shards)
	}
}
