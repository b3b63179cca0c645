//go:build chaos

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// failoverMost is the longest time that a shard may be away after kill -9 of its owner (G10).
const failoverMost = 4 * time.Second

// atOnceMost is the time in which most shards are served again, as the others know of the death at once (R10a): no
// heartbeat timeout is over.
const atOnceMost = 600 * time.Millisecond

// TestFailover kills owners with SIGKILL. For each kill it measures the longest time in which a shard was asked and
// answered no client. The clients try the next node when one refuses the connection. The machine is otherwise quiet:
// 300 operations per second, by so few clients that they leave the nodes a processor while all of them try again.
func TestFailover(t *testing.T) {
	kills := setting(t, "STINT_CHAOS_KILLS", 8, strconv.Atoi)
	c, s := newCluster(t), seed(t)
	var mu sync.Mutex
	var outages []verify.Outage
	var killed []time.Time
	plan := verify.Plan{Rate: 300, Workers: 12, IDs: 50, Seed: s, Deadline: 6 * time.Second,
		Outage: func(o verify.Outage) {
			mu.Lock()
			defer mu.Unlock()
			outages = append(outages, o)
		}}
	mustVerify(t, c, plan, func(ctx context.Context) error {
		for n := range kills {
			owner, err := anOwner(c, n)
			if err != nil {
				return err
			}
			killed = append(killed, time.Now())
			if err := c.Kill(owner); err != nil {
				return err
			}
			if err := pause(ctx, failoverMost); err != nil { // the failover must end within that time
				return err
			}
			if err := c.Restart(owner); err != nil {
				return err
			}
			ready(t, c)
			if err := pause(ctx, time.Second); err != nil { // outages of the restart are not counted for the next kill
				return err
			}
		}
		return nil
	})
	var worst []int64
	for _, at := range killed {
		worst = append(worst, awayAfter(at, outages).Microseconds())
	}
	spread := verify.SpreadOf(worst)
	t.Logf("%d kills of owners: the slowest shard was away for p50 %v, p99 %v, worst %v", kills, micros(spread.P50),
		micros(spread.P99), micros(spread.Worst))
	// The machine is shared, and may stand still for a second at any kill, but not at most of them.
	if micros(spread.P50) > atOnceMost { // 0: it was away for too short a time to count
		t.Errorf("a shard was away for %v after most kills, want %v at most", micros(spread.P50), atOnceMost)
	}
}

// awayAfter returns the longest time in which a shard was asked and served no client, of those times that touch the
// failover. It is measured from its own beginning: a shard that is asked 75 times a second shows within moments that
// its owner was killed, and one that is away for an instant seconds later, as for a hand-over, has served in between.
func awayAfter(at time.Time, outages []verify.Outage) (longest time.Duration) {
	for _, o := range outages {
		if o.Began.Add(o.Lasted).After(at) && o.Began.Before(at.Add(failoverMost)) {
			longest = max(longest, o.Lasted)
		}
	}
	return longest
}

// anOwner returns a node that owns a shard, a different one each time if there are several.
func anOwner(c *testcluster.Cluster, n int) (int, error) {
	for i := range c.Len() {
		if node := (n + i) % c.Len(); owns(c.Addr(node)) {
			return node, nil
		}
	}
	return 0, fmt.Errorf("no node says that it owns a shard")
}

// owns reports whether a node has an epoch open, by its metrics.
func owns(address string) bool { return hasEpoch(address, "stint_epoch{") }

// ownsShard reports whether a node has an epoch of this shard open, by its metrics.
func ownsShard(address string, id uint32) bool {
	return hasEpoch(address, fmt.Sprintf("stint_epoch{shard=\"%d\"}", id))
}

func hasEpoch(address, series string) bool {
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), series); ok && !strings.HasSuffix(rest, " 0") {
			return true
		}
	}
	return false
}
