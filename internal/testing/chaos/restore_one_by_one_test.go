//go:build chaos

package chaos

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

const lookedAtPolicies = `policies:
  billing:
    limits: [{name: month, quota: 1000, calendar: {unit: month, time_zone: UTC}}]
  invoice:
    limits: [{name: month, quota: 1000, calendar: {unit: month, time_zone: UTC}}]
  prepaid:
    limits: [{name: total, quota: 20, lifetime: {}}]
  login:
    limits: [{name: day, quota: 50, sliding_log: {period: 24h}}]
    lockout: {after: 2, base: 1h, factor: 2, max: 2h, forgive_after: 24h}
`

// TestARestoreLookedAtOneByOne: three processes are backed up, go on, and are gone. One is restored from the backup,
// four more join it, and two of the five die. A billing quota, a login ladder, holds and ids are each as
// docs/operations.md says.
func TestARestoreLookedAtOneByOne(t *testing.T) {
	c := newClusterWith(t, testcluster.Options{Policies: lookedAtPolicies, Replicas: 5})
	was := looker{t, c}
	was.spend("billing", "acme", 700, "")
	was.spend("invoice", "acme", 700, "")
	known, late := uuid7(1), uuid7(2)
	was.spend("prepaid", "item", 3, known)
	hold := was.reserve("prepaid", "item")
	was.fail("login", "known")
	was.fail("login", "known")
	was.spend("login", "quiet", 1, "")
	blocked := mustGet(t, c, "login", "known").BlockedUntil
	if blocked.IsZero() {
		t.Fatal("two failures do not block")
	}
	file := filepath.Join(t.TempDir(), "stint.backup")
	if err := stint(t.Context(), "backup", file, "--addr", "http://"+c.Addr(1)); err != nil {
		t.Fatal(err)
	}

	// All of this is lost.
	was.spend("billing", "acme", 200, "")
	was.spend("prepaid", "item", 1, late)
	was.spend("prepaid", "item", 1, "an id without a time")
	lost := was.reserve("prepaid", "item")
	was.fail("login", "late")
	was.fail("login", "late")
	for i := range c.Len() {
		if err := c.Kill(i); err != nil {
			t.Fatal(err)
		}
	}

	after := newStoppedCluster(t, testcluster.Options{Nodes: 5})
	if err := stint(t.Context(), "restore", file, "--data-dir", after.Dir(0), "--node-id", after.Name(0), "--keep",
		"billing/month", "--yes"); err != nil {
		t.Fatal(err)
	}
	now := looker{t, after}
	now.start(0)

	// The billing quota that a person kept goes on from the backup; the other is full to the end of the month, even for
	// keys that were never seen, until a person clears it.
	if got := mustGet(t, after, "billing", "acme").Used; got != 700 {
		t.Errorf("billing: %d are used, want the backup's 700", got)
	}
	now.spend("billing", "acme", 300, "")
	now.denied("billing", "acme")
	now.denied("invoice", "acme")
	now.denied("invoice", "nobody has seen")
	now.must("adjust", "invoice", "acme", "reset", "--note", "paid in advance")
	now.spend("invoice", "acme", 1, "")

	// The ladder: as the backup has it, and the worst for keys that are not in the backup.
	if got := mustGet(t, after, "login", "known").BlockedUntil; !got.Equal(blocked) {
		t.Errorf("a known failure blocks until %v, want %v", got, blocked)
	}
	if got := mustGet(t, after, "login", "quiet").BlockedUntil; !got.IsZero() {
		t.Errorf("a key without failures is blocked until %v", got)
	}
	for _, key := range []string{"late", "nobody has seen"} {
		if left := time.Until(mustGet(t, after, "login", key).BlockedUntil); left < time.Hour || left > 3*time.Hour {
			t.Errorf("login %s is blocked for %v, want 2h", key, left)
		}
	}
	now.must("adjust", "login", "late", "unblock")
	if got := mustGet(t, after, "login", "late").BlockedUntil; !got.IsZero() {
		t.Errorf("an unblocked key is blocked until %v", got)
	}

	// Holds: what is known ends, and gives nothing back; what is lost is refused.
	mustSettle(t, after, hold, "cancel")
	now.prepaid(3 + 1)
	now.refused("Settle", map[string]any{"holdId": lost, "cancel": struct{}{}})

	// Ids: a known one has its answer, an unknown one of before is refused if it tells its time, another one runs
	// again.
	if d := now.ask("prepaid", "item", 3, known); !d.Allowed || !d.Replayed {
		t.Errorf("the id that the backup knows: %+v", d)
	}
	now.refused("Check", checkOf("prepaid", "item", 1, late))
	if d := now.ask("prepaid", "item", 1, "an id without a time"); !d.Allowed || d.Replayed {
		t.Errorf("an id without a time: %+v", d)
	}
	now.prepaid(3 + 1 + 1)

	// It grows to five, and two of them may die.
	for i := 1; i < 5; i++ {
		now.start(i)
	}
	if err := awaitStatus(t, after.Addr(4), time.Minute, votersOn("n1", "n2", "n3", "n4", "n5")); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := after.Kill(i); err != nil {
			t.Fatal(err)
		}
	}
	now.denied("billing", "acme")
	now.denied("invoice", "nobody has seen")
	now.prepaid(5)
	now.spend("prepaid", "item", 15, "")
	now.denied("prepaid", "item")
	if got := mustGet(t, after, "login", "known").BlockedUntil; !got.Equal(blocked) {
		t.Errorf("with five nodes a known failure blocks until %v, want %v", got, blocked)
	}
}

// looker asks a cluster, any node that answers.
type looker struct {
	t *testing.T
	c *testcluster.Cluster
}

func checkOf(policy, key string, cost int, id string) map[string]any {
	return map[string]any{"entries": []any{map[string]any{"policy": policy, "key": key, "cost": cost}},
		"idempotencyId": id}
}

func (l looker) start(i int) {
	l.t.Helper()
	restarted(l.t, l.c, i)
}

func (l looker) insist(method string, message any) decided {
	l.t.Helper()
	d, err := crowd(l.c).insist(0, method, message)
	if err != nil {
		l.t.Fatalf("%s %v: %v", method, message, err)
	}
	return d
}

// ask checks until there is a decision; "" stands for an id of its own, without a time: for 10 s after a restore those
// of the moment are refused like those of before.
func (l looker) ask(policy, key string, cost int, id string) decided {
	l.t.Helper()
	if id == "" {
		id = fresh()
	}
	return l.insist("Check", checkOf(policy, key, cost, id))
}

func (l looker) spend(policy, key string, cost int, id string) {
	l.t.Helper()
	if d := l.ask(policy, key, cost, id); !d.Allowed {
		l.t.Errorf("%s %s: %d are denied", policy, key, cost)
	}
}

func (l looker) denied(policy, key string) {
	l.t.Helper()
	if d := l.ask(policy, key, 1, ""); d.Allowed {
		l.t.Errorf("%s %s: one more is admitted", policy, key)
	}
}

func (l looker) reserve(policy, key string) (hold string) {
	l.t.Helper()
	d := l.insist("Reserve", map[string]any{"check": checkOf(policy, key, 1, fresh()), "ttl": "600s"})
	if !d.Allowed || d.HoldID == "" {
		l.t.Fatalf("%s %s: no hold: %+v", policy, key, d)
	}
	return d.HoldID
}

func (l looker) fail(policy, key string) {
	l.t.Helper()
	mustSettle(l.t, l.c, l.reserve(policy, key), "failed")
}

// refused wants the answer that it is too late for that.
func (l looker) refused(method string, message any) {
	l.t.Helper()
	if d, err := crowd(l.c).insist(0, method, message); err == nil ||
		!strings.Contains(err.Error(), `"failed_precondition"`) {
		l.t.Errorf("%s %v: %+v, %v", method, message, d, err)
	}
}

func (l looker) prepaid(used number) {
	l.t.Helper()
	if got := mustGet(l.t, l.c, "prepaid", "item"); got.Used != used || got.Held != 0 {
		l.t.Errorf("prepaid: %+v, want %d used and none held", got, used)
	}
}

func (l looker) must(arguments ...string) {
	l.t.Helper()
	if err := stint(l.t.Context(), append(arguments, "--addr", "http://"+l.c.Addr(0))...); err != nil {
		l.t.Fatal(err)
	}
}

var freshIDs int

// fresh is an id that nobody has used.
func fresh() string {
	freshIDs++
	return fmt.Sprintf("one-%d", freshIDs)
}

// uuid7 is the n-th id that tells the time of its making (RFC 9562).
func uuid7(n uint64) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|n)
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
