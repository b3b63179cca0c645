package examples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// Row 88: the counts of a login must be exact. Sixty machines guess at one account, asking three nodes; account,
// address and pair are keys of several shards. A request that one of them denies has changed none of the others, and
// every failure is settled at another node than it was reserved at.
func TestSeedRow88ALoginIsExactAcrossShardsAndNodes(t *testing.T) {
	clients := nodes(t)
	const machines, quota = 60, 20
	holds := make([]string, machines)
	atOnce(t, machines, func(i int) error {
		d, err := decide(clients[i%3].address, "Reserve", object{"ttl": "60s", "check": object{"entries": []object{
			entry("login-pair", "user:88/"+machine(i)), entry("login-account", "user:88"),
			entry("login-address", machine(i))}}})
		holds[i] = d.HoldID
		return err
	})
	var admitted int
	for _, hold := range holds {
		if hold != "" {
			admitted++
		}
	}
	if admitted != quota {
		t.Fatalf("%d of %d reach the password, want %d", admitted, machines, quota)
	}
	atOnce(t, machines, func(i int) error {
		if holds[i] == "" {
			return nil
		}
		_, err := decide(clients[(i+1)%3].address, "Settle", object{"holdId": holds[i], "failed": object{}})
		return err
	})

	for i := range machines {
		want := uint64(0)
		if holds[i] != "" {
			want = 1
		}
		awaitUsed(t, clients[(i+2)%3], "login-address", machine(i), want)
		awaitUsed(t, clients[(i+2)%3], "login-pair", "user:88/"+machine(i), want)
	}
	for _, c := range clients {
		tries := awaitUsed(t, c, "login-account", "user:88", quota)
		// The tenth failure in a row blocks, and each further one is one more step.
		if tries.LockoutLevel != quota-9 || tries.BlockedUntil.IsZero() {
			t.Errorf("%s: after %d failures level %d, blocked until %v",
				c.address, quota, tries.LockoutLevel, tries.BlockedUntil)
		}
	}
}

// An attempt that is never settled counts as failed, on every shard that counted it.
func TestSeedRow88AVanishedLoginIsAFailureOnEveryShard(t *testing.T) {
	clients := nodes(t)
	var last decision
	for i := range 3 {
		last = clients[i].decide("Reserve", object{"ttl": "0.300s", "check": object{"entries": []object{
			entry("login-pair", "user:89/198.51.100.89"), entry("login-account", "user:89"),
			entry("login-address", "198.51.100.89")}}})
	}
	for i, c := range clients {
		awaitUsed(t, c, "login-account", "user:89", 3)
		awaitUsed(t, c, "login-address", "198.51.100.89", 3)
		pair := awaitUsed(t, c, "login-pair", "user:89/198.51.100.89", 3)
		if pair.LockoutLevel != 1 || pair.BlockedUntil.Before(last.HoldExpiresAt.Add(29*time.Second)) {
			t.Errorf("node %d: level %d, blocked until %v, want 1, 30 s after %v",
				i, pair.LockoutLevel, pair.BlockedUntil, last.HoldExpiresAt)
		}
	}
	clients[0].refused("LimitService/Settle", object{"holdId": last.HoldID, "success": object{}}, "failed_precondition")
}

func machine(i int) string { return fmt.Sprintf("192.0.2.%d", i) }

// awaitUsed waits until the used count is as wanted and nothing is held: shards other than the deciding one follow a
// moment later.
func awaitUsed(t *testing.T, c client, policy, key string, want uint64) (s status) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%s on %s: %d are used and none held", policy, key, want), func() bool {
		limits, _ := c.get(policy, key)
		s = limits[0]
		return s.Used == want && s.Held == 0
	}, &s)
	return s
}

// atOnce runs do n times at the same time.
func atOnce(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// decide makes one call that is answered with a decision. It may be called concurrently.
func decide(address, method string, request object) (decision, error) {
	status, body, err := post(address, "LimitService/"+method, request)
	if err != nil {
		return decision{}, err
	}
	var answer struct{ Decision decision }
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
		return decision{}, fmt.Errorf("%s: status %d: %s", method, status, body)
	}
	return answer.Decision, nil
}
