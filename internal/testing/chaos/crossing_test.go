//go:build chaos

package chaos

import (
	"fmt"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const crossingPolicies = `policies:
  shelf:
    limits:
      - {name: shelf, quota: 700, lifetime: {}}
  stock:
    parent: shelf
    limits:
      - {name: stock, quota: 200, lifetime: {}}
`

const (
	crossingKeys  = 12
	crossingQuota = 200
	// shelves have 4 keys each, and less room than those together.
	shelves    = 3
	shelfQuota = 700
	// capacityBack is how long undecided operations may keep units: a leg asks home after 5 s, its owner looks every
	// 500 ms, and a failover may come between.
	capacityBack = 15 * time.Second
)

// TestAllOrNothingUnderKills makes clients take two or three keys at once, of all shards, and with them their parents,
// by checks and by holds that they extend and settle, while the nodes that coordinate and own them are killed. Every
// operation is retried with its id until its outcome is known. In the end each key and each parent has used exactly
// what the allowed operations took, none is above its quota, and nothing is held.
func TestAllOrNothingUnderKills(t *testing.T) {
	kills := setting(t, "STINT_CHAOS_KILLS", 5, strconv.Atoi)
	c := newClusterWith(t, testcluster.Options{Policies: crossingPolicies})
	random := rand.New(rand.NewPCG(seed(t), 1))
	stop := make(chan struct{})
	books := make([]map[string]uint64, 16)
	var asked, allowed [16]int
	var decided atomic.Int64
	var group sync.WaitGroup
	for w := range books {
		books[w] = map[string]uint64{}
		mine := rand.New(rand.NewPCG(random.Uint64(), uint64(w)))
		group.Go(func() {
			client := crowd(c)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				entries := someEntries(mine)
				took, err := client.take(mine, fmt.Sprintf("w%d-%d", w, n), entries)
				if err != nil {
					t.Error(err)
					return
				}
				asked[w]++
				decided.Add(1)
				if took {
					allowed[w]++
					for _, e := range entries {
						books[w][e.Key]++
						books[w][shelfOf(e.Key)]++
					}
				}
				pause(t.Context(), time.Duration(mine.IntN(20))*time.Millisecond)
			}
		})
	}
	for range kills {
		before := decided.Load()
		await.Until(t, "operations are decided", func() bool { return decided.Load() >= before+300 || t.Failed() })
		victim := random.IntN(c.Len())
		if err := c.Kill(victim); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), time.Second)
		restartDead(t, c)
	}
	close(stop)
	group.Wait()
	restartDead(t, c)
	total := map[string]uint64{}
	operations, admittedOnes := 0, 0
	for w := range books {
		operations, admittedOnes = operations+asked[w], admittedOnes+allowed[w]
		for key, units := range books[w] {
			total[key] += units
		}
	}
	t.Logf("%d operations on 2 or 3 keys, %d allowed, %d kills", operations, admittedOnes, kills)
	if admittedOnes == 0 || admittedOnes == operations {
		t.Error("the run shows nothing: all or none were allowed")
	}
	began := time.Now()
	for n := range crossingKeys {
		awaitExact(t, c, "stock", crossingKey(n), total[crossingKey(n)], began)
	}
	for n := range shelves {
		awaitExact(t, c, "shelf", shelfOf(crossingKey(n)), total[shelfOf(crossingKey(n))], began)
	}
	t.Logf("nothing undecided was left %v after the last answer", time.Since(began).Round(time.Millisecond))
}

// take takes a unit of each key, by a check or by a hold that is committed, and reports whether it did. Every fourth
// hold is canceled, and takes nothing. Half of the holds are extended, with an id or without.
func (m many) take(random *rand.Rand, id string, entries []entryBody) (bool, error) {
	check, first := checkBody{Entries: entries, ID: id}, random.IntN(len(m.nodes))
	if random.IntN(2) == 0 {
		d, err := m.insist(first, "Check", check)
		return d.Allowed, err
	}
	extended := random.IntN(2) == 0
	d, err := m.insist(first, "Reserve", map[string]any{"check": check,
		"ttl": map[bool]string{true: "120s", false: "600s"}[extended]})
	if err != nil || !d.Allowed {
		return false, err
	}
	for n := 0; extended && n < 2; n++ {
		message := map[string]any{"holdId": d.HoldID, "extend": map[string]any{"ttl": "600s"}}
		if random.IntN(2) == 0 {
			message["idempotencyId"] = fmt.Sprint("extends ", id, " ", n)
		}
		longer, err := m.insist(first+n, "Settle", message)
		if err != nil {
			return false, err
		}
		if least := d.DecidedAt.Add(600 * time.Second); longer.HoldExpiresAt.Before(least) {
			return false, fmt.Errorf("the hold of %s ends at %v, and was extended to %v at least",
				id, longer.HoldExpiresAt, least)
		}
	}
	action := [...]string{"commit", "success", "failed", "cancel"}[random.IntN(4)]
	_, err = m.insist(first+1, "Settle", map[string]any{"holdId": d.HoldID, action: struct{}{}})
	return action == "commit" || action == "failed", err
}

func crossingKey(n int) string { return fmt.Sprintf("shelf:%d/item:%d", n%shelves, n) }

// shelfOf is the parent of a key.
func shelfOf(key string) string {
	shelf, _, _ := strings.Cut(key, "/")
	return shelf
}

// someEntries names two or three keys.
func someEntries(random *rand.Rand) []entryBody {
	var entries []entryBody
	for _, n := range random.Perm(crossingKeys)[:2+random.IntN(2)] {
		entries = append(entries, entryBody{"stock", crossingKey(n)})
	}
	return entries
}

// awaitExact waits until a key has used what it should, and nothing of it is held.
func awaitExact(t *testing.T, c *testcluster.Cluster, policy, key string, want uint64, began time.Time) {
	t.Helper()
	quota := map[string]uint64{"stock": crossingQuota, "shelf": shelfQuota}[policy]
	await.Until(t, key+" has used what it should", func() bool {
		status := mustGet(t, c, policy, key)
		if uint64(status.Used) > quota || uint64(status.Used) < want {
			t.Fatalf("%s has used %d, the allowed operations took %d of %d", key, status.Used, want, quota)
		}
		exact := uint64(status.Used) == want && status.Held == 0
		if !exact && time.Since(began) > capacityBack {
			t.Fatalf("%s: %d used and %d held after %v; the allowed operations took %d", key, status.Used, status.Held,
				capacityBack, want)
		}
		return exact
	})
}
