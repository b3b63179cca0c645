//go:build chaos

package chaos

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

const forgetPolicies = `policies:
  login:
    limits:
      - {name: ever, quota: 100, lifetime: {}}
`

// TestForgottenWhileTheOwnerDies: a key that takes part in operations and holds on several shards is forgotten while
// the owner of its shard is killed, through any node that answers. Then it has used nothing, its holds have ended, and
// the keys that were charged with it have used what they were charged.
func TestForgottenWhileTheOwnerDies(t *testing.T) {
	c := newClusterWith(t, testcluster.Options{Policies: forgetPolicies})
	clients := crowd(c)
	for round := range 4 {
		person := fmt.Sprint("user:", round)
		var holds []string
		for n := range 6 {
			both := checkBody{Entries: []entryBody{{"login", person}, {"login", fmt.Sprintf("team:%d/%d", round, n)}},
				ID: fmt.Sprintf("check %d/%d", round, n)}
			if d, err := clients.insist(n, "Check",
				map[string]any{"entries": both.Entries, "idempotencyId": both.ID}); err != nil || !d.Allowed {
				t.Fatalf("%+v: %v", d, err)
			}
			both.ID = "hold " + both.ID
			d, err := clients.insist(n, "Reserve", map[string]any{"check": both, "ttl": "600s"})
			if err != nil || !d.Allowed {
				t.Fatalf("%+v: %v", d, err)
			}
			holds = append(holds, d.HoldID)
		}
		if owner := ownerOfKey(t, c, "login", person); round%2 == 1 {
			if err := c.Kill(owner); err != nil {
				t.Fatal(err)
			}
		}
		if err := clients.forget(person); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			restartDead(t, c)
		}
		if status := mustGet(t, c, "login", person); status.Used != 0 || status.Held != 0 {
			t.Errorf("forgotten: %+v", status)
		}
		for n, hold := range holds {
			if status := mustGet(t, c, "login", fmt.Sprintf("team:%d/%d", round, n)); status.Used > 2 ||
				status.Used < 1 {
				t.Errorf("charged with it: %+v", status)
			}
			if d, err := clients.insist(n, "Settle", map[string]any{"holdId": hold, "commit": struct{}{}}); err == nil {
				t.Errorf("hold %d is settled after it was forgotten: %+v", n, d)
			}
		}
	}
}

// forget asks until the key is forgotten.
func (m many) forget(key string) error {
	_, err := m.insist(0, "Forget", map[string]any{"key": key})
	return err
}
