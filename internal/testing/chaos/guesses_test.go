//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	guesses      = 1000
	triesAllowed = 5
	// callPatience is how long a caller retries with its id when it learns no outcome.
	callPatience = 15 * time.Second
)

const loginPolicies = `policies:
  login:
    security: true
    on_expire: commit
    limits:
      - {name: account-15m, quota: 5, sliding_log: {period: 15m}}
    lockout: {after: 3, base: 1m, factor: 2, max: 1h, forgive_after: 24h}
`

// TestAThousandGuesses makes a thousand callers try to log in to one account at once, through all nodes. Each reserves
// an attempt before it would check the password: exactly five succeed, in every second round while the owner of the
// account is killed. Then all five are settled as wrong passwords, and the account is blocked.
func TestAThousandGuesses(t *testing.T) {
	rounds := setting(t, "STINT_CHAOS_ROUNDS", 4, strconv.Atoi)
	c := newClusterWith(t, testcluster.Options{Policies: loginPolicies})
	for round := range rounds {
		key := fmt.Sprintf("user:%d", round)
		kill := round%2 == 1
		var during func()
		if kill {
			owner := ownerOfKey(t, c, "login", key)
			during = func() {
				if err := c.Kill(owner); err != nil {
					t.Error(err)
				}
			}
		}
		holds := guess(t, c, key, during)
		t.Logf("round %d, owner killed: %v: %d guesses, %d reached the password check",
			round, kill, guesses, len(holds))
		if len(holds) != triesAllowed {
			t.Fatalf("%d attempts of %d reached the password check, want %d", len(holds), guesses, triesAllowed)
		}
		if kill {
			restartDead(t, c)
		}
		for _, hold := range holds {
			mustSettle(t, c, hold, "failed")
		}
		status := mustGet(t, c, "login", key)
		if status.Used != triesAllowed || status.Held != 0 || status.LockoutLevel != 3 || status.BlockedUntil.IsZero() {
			t.Fatalf("after five wrong passwords: %+v", status)
		}
	}
}

// guess sends all guesses at once and returns the holds that were granted. during runs when a tenth has been answered.
func guess(t *testing.T, c *testcluster.Cluster, key string, during func()) (holds []string) {
	var mu sync.Mutex
	var answered atomic.Int64
	var once sync.Once
	var group sync.WaitGroup
	client := crowd(c)
	for n := range guesses {
		group.Go(func() {
			body := map[string]any{"check": checkBody{Entries: []entryBody{{"login", key}},
				ID: fmt.Sprintf("%s/%d", key, n)}, "ttl": "600s"}
			d, err := client.insist(n, "Reserve", body)
			if err != nil {
				t.Error(err)
				return
			}
			if answered.Add(1) == guesses/10 && during != nil {
				once.Do(during)
			}
			if d.Allowed {
				mu.Lock()
				defer mu.Unlock()
				holds = append(holds, d.HoldID)
			}
		})
	}
	group.Wait()
	return holds
}

// many asks a cluster as many clients do: any node first, and then the next one with the same id if it learns no
// outcome.
type many struct {
	nodes []*client
}

func crowd(c *testcluster.Cluster) many {
	m := many{}
	for _, address := range c.Addrs() {
		m.nodes = append(m.nodes, newClient(address))
	}
	return m
}

// decided is the part of a decision that the tests need.
type decided struct {
	Allowed, Replayed        bool
	HoldID, DecisionID       string
	DecidedAt, HoldExpiresAt time.Time
	Limits                   []limitStatus
	Positions                []struct{ Shard uint32 }
}

type limitStatus struct {
	Policy, Limit, Key    string
	Used, Held, Remaining number
	WindowStart           time.Time
	LockoutLevel          uint32
	BlockedUntil          time.Time
}

// number is a 64-bit number, which Connect's JSON writes as a string.
type number uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	unquoted, err := strconv.Unquote(string(text))
	if err != nil {
		return err
	}
	value, err := strconv.ParseUint(unquoted, 10, 64)
	*n = number(value)
	return err
}

// insist asks until there is a decision. The message must carry an id.
func (m many) insist(first int, method string, message any) (decided, error) {
	var last string
	for began, n := time.Now(), first; time.Since(began) < callPatience; n++ {
		var reply struct {
			Decision      decided
			Code, Message string
		}
		status, err := m.nodes[n%len(m.nodes)].call(method, message, &reply)
		switch {
		case err != nil:
			last = err.Error()
		case status == http.StatusOK:
			return reply.Decision, nil
		case reply.Code == "unavailable", reply.Code == "aborted", reply.Code == "deadline_exceeded":
			last = reply.Message
		default:
			return decided{}, fmt.Errorf("%s: status %d, code %q: %s", method, status, reply.Code, reply.Message)
		}
		pause(context.Background(), 20*time.Millisecond) // between two tries
	}
	return decided{}, fmt.Errorf("%s: no decision in %v: %s", method, callPatience, last)
}

func mustSettle(t *testing.T, c *testcluster.Cluster, hold, action string) {
	t.Helper()
	if _, err := crowd(c).insist(0, "Settle", map[string]any{"holdId": hold, action: struct{}{}}); err != nil {
		t.Fatal(err)
	}
}

// mustGet reads the first limit of a key.
func mustGet(t *testing.T, c *testcluster.Cluster, policy, key string) limitStatus {
	t.Helper()
	var found limitStatus
	await.Until(t, fmt.Sprintf("somebody tells the state of %s/%s", policy, key), func() bool {
		for _, node := range crowd(c).nodes {
			var reply struct{ Limits []limitStatus }
			status, err := node.call("Get", checkBody{Entries: []entryBody{{policy, key}}}, &reply)
			if err == nil && status == http.StatusOK && len(reply.Limits) > 0 {
				found = reply.Limits[0]
				return true
			}
		}
		return false
	})
	return found
}

// ownerOfKey returns the node that decides for a key.
func ownerOfKey(t *testing.T, c *testcluster.Cluster, policy, key string) int {
	t.Helper()
	d, err := crowd(c).insist(0, "Check", map[string]any{"entries": []entryBody{{policy, key}}, "mode": "MODE_PEEK"})
	if err != nil || len(d.Positions) != 1 {
		t.Fatalf("peek: %+v, %v", d, err)
	}
	owner := -1
	await.Until(t, fmt.Sprintf("somebody owns shard %d", d.Positions[0].Shard), func() bool {
		owner = slices.IndexFunc(c.Addrs(), func(address string) bool {
			return ownsShard(address, d.Positions[0].Shard)
		})
		return owner >= 0
	})
	return owner
}

// restartDead starts the killed nodes and waits until all serve.
func restartDead(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for i := range c.Len() {
		if !c.Running(i) {
			if err := c.Restart(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	ready(t, c)
}
