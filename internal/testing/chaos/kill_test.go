//go:build chaos

package chaos

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

const (
	workers = 16
	policy  = "stock" // its quota never comes back: every admission must still be counted at the end
)

func policies(quota int) string {
	return fmt.Sprintf("policies:\n  %s:\n    limits:\n      - {name: total, quota: %d, lifetime: {}}\n", policy, quota)
}

// killWhile kills and restarts the server at random moments, until there were enough kills or working returns false.
// The work runs from before the first kill until after the last one, unless it ends earlier.
func killWhile(t *testing.T, s *testcluster.Cluster, kills int, random *rand.Rand, working func() bool) int {
	killed := 0
	for killed < kills && working() {
		// the random part is the moment of the kill
		pause(t.Context(), time.Duration(20+random.IntN(180))*time.Millisecond)
		if err := s.Kill(0); err != nil {
			t.Fatal(err)
		}
		killed++
		restarted(t, s, 0)
	}
	t.Logf("killed and restarted %d times", killed)
	return killed
}

// TestLimitAdmitsExactlyNThroughKills: clients with ids retry until they know the outcome. Of a limit of N, exactly N
// are admitted.
func TestLimitAdmitsExactlyNThroughKills(t *testing.T) {
	const quota, kills = 5000, 20
	s := newServer(t, policies(quota))
	random := rand.New(rand.NewPCG(seed(t), 1))

	var admissions, denials, asked atomic.Int64
	var killsDone atomic.Bool
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			c := newClient(s.Addr(0))
			// A few denials after the last kill: the limit must still hold when everything is over.
			for n, last := 0, 0; last < 3; n++ {
				// Spread over the kills: without a pause the quota would be used up before the third.
				if !killsDone.Load() && admissions.Load() > quota*9/10 {
					pause(t.Context(), 5*time.Millisecond)
				} else if !killsDone.Load() {
					pause(t.Context(), workers*time.Millisecond)
				}
				switch askUntilKnown(t, c, "one key", fmt.Sprintf("w%d-%d", worker, n), &asked) {
				case admitted:
					admissions.Add(1)
				case denied:
					denials.Add(1)
					if killsDone.Load() {
						last++
					}
				}
			}
		})
	}
	if killed := killWhile(t, s, kills, random, func() bool { return true }); killed < kills {
		t.Errorf("only %d kills", killed)
	}
	killsDone.Store(true)
	group.Wait()
	used, err := newClient(s.Addr(0)).used(policy, "one key")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("limit %d, admitted %d, denied %d, used %d, asked %d times",
		quota, admissions.Load(), denials.Load(), used, asked.Load())
	if admissions.Load() != quota || used != quota {
		t.Errorf("limit %d: admitted %d, used %d", quota, admissions.Load(), used)
	}
}

// askUntilKnown repeats one request, with its id, until the server decides.
func askUntilKnown(t *testing.T, c *client, key, id string, asked *atomic.Int64) answer {
	for {
		asked.Add(1)
		got, err := c.check(policy, key, id)
		if err != nil {
			t.Errorf("check %s: %v", id, err)
			return denied
		}
		if got == admitted || got == denied {
			return got
		}
		pause(t.Context(), 2*time.Millisecond) // the server is down: the client can only wait
	}
}

// TestNothingAcknowledgedIsForgotten: clients without ids. Every certain admission is counted; every counted unit was
// certainly admitted or has an unknown outcome; no limit admits more than its quota.
func TestNothingAcknowledgedIsForgotten(t *testing.T) {
	const quota, keys, kills = 100_000, 8, 50
	s := newServer(t, policies(quota))
	random := rand.New(rand.NewPCG(seed(t), 2))

	var acknowledged, unknowns [keys]atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			c := newClient(s.Addr(0))
			for n := worker; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := n % keys
				got, err := c.check(policy, fmt.Sprint("key ", key), "")
				switch {
				case err != nil:
					t.Error(err)
					return
				case got == admitted:
					acknowledged[key].Add(1)
				case got == unknown:
					unknowns[key].Add(1)
				case got == notExecuted:
					pause(t.Context(), 2*time.Millisecond) // the server is down: the client can only wait
				}
			}
		})
	}
	killed := killWhile(t, s, kills, random, func() bool { return !t.Failed() })
	close(stop)
	group.Wait()

	var total, maybe int64
	c := newClient(s.Addr(0))
	for key := range keys {
		used, err := c.used(policy, fmt.Sprint("key ", key))
		if err != nil {
			t.Fatal(err)
		}
		sure, open := acknowledged[key].Load(), unknowns[key].Load()
		total, maybe = total+sure, maybe+open
		if int64(used) < sure || int64(used) > sure+open {
			t.Errorf("key %d: %d acknowledged, %d unknown, but %d counted", key, sure, open, used)
		}
	}
	t.Logf("%d kills: %d acknowledged, all counted; %d unknown", killed, total, maybe)
	if killed < kills || total < int64(kills)*10 {
		t.Errorf("%d kills and %d acknowledged admissions prove nothing", killed, total)
	}
}
