//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// politeClients send 500 operations per second, each with a deadline of 2 s and without an id. They know all nodes, and
// try another one only where nothing can have been counted: the connection was refused, or the node said unavailable.
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

// TestRollingRestart: the nodes are stopped in order and started again, one after the other, STINT_CHAOS_ROUNDS times
// (G11). Even clients that ask another node only where a connection is refused fail nothing: no node answers that it
// cannot answer yet. Nor does one blame a client of its Redis port.
func TestRollingRestart(t *testing.T) {
	rounds := setting(t, "STINT_CHAOS_ROUNDS", 1, strconv.Atoi)
	c := newClusterWith(t, testcluster.Options{Policies: clusterPolicies, Redis: true})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	var took [8][]int64
	for i := range took {
		group.Go(func() { took[i] = asksInTurn(ctx, t, c, i) })
	}
	for i := range c.Len() {
		group.Go(func() { countsWhileItRuns(ctx, t, c.RedisAddr(i)) })
	}
	r := mustVerify(t, c, politeClients(seed(t)), func(ctx context.Context) error {
		for i := range rounds * c.Len() {
			if err := restart(ctx, c, i%c.Len()); err != nil {
				return err
			}
		}
		return nil
	})
	cancel()
	group.Wait()
	failsNobody(t, r)
	turns := verify.SpreadOf(slices.Concat(took[:]...))
	t.Logf("%d rounds: %d checks at every node in turn, p50 %v, p99 %v, worst %v",
		rounds, turns.Count, micros(turns.P50), micros(turns.P99), micros(turns.Worst))
}

// asksInTurn asks one node after the other, and goes on to the next one only where a connection is refused. It returns
// how long each check took.
func asksInTurn(ctx context.Context, t *testing.T, c *testcluster.Cluster, first int) (took []int64) {
	nodes := make([]*client, c.Len())
	for i := range nodes {
		nodes[i] = newClient(c.Addr(i))
		defer nodes[i].http.CloseIdleConnections()
	}
	for n := first; ctx.Err() == nil; n++ {
		began, refused := time.Now(), 0
		for ; refused < len(nodes); refused++ {
			var reply struct{ Code, Message string }
			status, err := nodes[(n+refused)%len(nodes)].call("Check",
				checkBody{Entries: []entryBody{{"stock", "in turn"}}}, &reply)
			var network *net.OpError
			if errors.As(err, &network) && network.Op == "dial" {
				continue
			}
			if err != nil || status != http.StatusOK {
				t.Errorf("check %d: %v %s: %s", n, err, reply.Code, reply.Message)
			}
			break
		}
		if refused == len(nodes) {
			t.Errorf("check %d: every node refused the connection", n)
		}
		took = append(took, time.Since(began).Microseconds())
		pause(ctx, 20*time.Millisecond)
	}
	return took
}

// countsWhileItRuns counts at one node; its Redis port may refuse connections, close them, and answer that the node
// stops.
func countsWhileItRuns(ctx context.Context, t *testing.T, addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	counted := 0
	for ctx.Err() == nil {
		var network *net.OpError
		switch err := client.Incr(context.Background(), "pinned").Err(); {
		case err == nil:
			counted++
		case errors.As(err, &network) || errors.Is(err, io.EOF) ||
			strings.Contains(err.Error(), "the node is stopping"):
		default:
			t.Errorf("after %d commands on %s: %v", counted, addr, err)
		}
		pause(ctx, 10*time.Millisecond) // a refused connection must not become a busy loop
	}
	if counted < 100 {
		t.Errorf("%d commands on %s prove little", counted, addr)
	}
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

// TestThreeFourThreeFour: a fourth node joins, and one of the first three is removed. It stops by itself, in order. Its
// disk is refused; with an empty one it comes back as a new node.
func TestThreeFourThreeFour(t *testing.T) {
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
		if err := stint(ctx, "cluster", "remove-node", c.Name(0), "--addr", c.Addr(1)); err != nil {
			return err
		}
		if err := awaitStatus(t, c.Addr(1), 30*time.Second, votersOn(c.Name(1), c.Name(2), c.Name(added))); err != nil {
			return err
		}
		if code, err := c.AwaitExit(ctx, 0); err != nil || code != 2 {
			return fmt.Errorf("the removed node ended with status %d, %v", code, err)
		}
		s, err := statusOf(within(t, 5*time.Second), c.Addr(1))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.Shards, func(shard shardStatus) bool { return shard.Owner == c.Name(0) }) {
			return fmt.Errorf("the removed node owns a shard: %+v", s.Shards)
		}
		if err := c.Restart(0); err != nil {
			return err
		}
		c.MayEnd(0)
		if code, err := c.AwaitExit(ctx, 0); err != nil || code != 2 {
			return fmt.Errorf("the disk of the removed node ended with status %d, %v", code, err)
		}
		if err := errors.Join(c.Wipe(0), c.Restart(0)); err != nil {
			return err
		}
		ready(t, c, 0)
		return awaitStatus(t, c.Addr(1), 30*time.Second, func(s status) string {
			for _, shard := range s.Shards {
				for _, r := range shard.Replicas {
					if r.Node == c.Name(0) && r.Voter {
						return ""
					}
				}
			}
			return "the node that came back has no copy"
		})
	})
	failsNobody(t, r)
}
