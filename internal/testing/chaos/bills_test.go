//go:build chaos

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// billGrace is the grace of all meters of billPolicies.
const billGrace = 3 * time.Second

// billPolicies have meters with periods of a minute, or of several: no policy has shorter ones. Three of them change
// while they are used: a quota, which begins its limit again, a calendar, and the name of a meter.
func billPolicies(quota, every int, name string) string {
	return fmt.Sprintf(`policies:
  calls:
    notify: [billing]
    on_change: reset
    limits: [{name: minute, quota: %d, calendar: {unit: minute}, on_recovery: keep, thresholds: [20, 60]}]
    meter: {name: calls, calendar: {unit: minute}, retain: 30, grace: 3s}
  capped:
    notify: [billing]
    limits: [{name: minute, quota: 12, calendar: {unit: minute}, on_recovery: keep, thresholds: [100%%]}]
    meter: {name: capped, calendar: {unit: minute}, retain: 30, grace: 3s}
  moved:
    notify: [billing]
    limits: [{name: ever, quota: 1000000, lifetime: {}, thresholds: [25]}]
    meter: {name: moved, calendar: {unit: minute, every: %d}, retain: 30, grace: 3s}
  renamed:
    notify: [billing]
    limits: [{name: ever, quota: 1000000, lifetime: {}}]
    meter: {name: %s, calendar: {unit: minute}, retain: 30, grace: 3s}
  pair:
    limits: [{name: ever, quota: 1000000, lifetime: {}}]
    meter: {name: pair, calendar: {unit: minute}, retain: 30, grace: 3s}
`, quota, every, name)
}

// billThresholds are the thresholds of billPolicies in units, by policy.
var billThresholds = map[string][]uint64{"calls": {20, 60}, "capped": {12}, "moved": {25}}

// TestBillsAreExactThroughKillsAndARestore: a load of checks, refunds, holds that are settled late or not at all, and
// operations on several shards goes through all nodes, while an owner is killed at the end of a period, all nodes are
// killed where the period becomes final, and policies change. Then the cluster is backed up, goes on, is lost and
// restored on one node, which is killed at the next two such instants. Each period of each key has what was admitted in
// it less what was given back before it was final, and as credits what was given back in it later; each has one id and,
// once final, never changes. A receiver gets each final period and each threshold that was reached, once by id.
//
// The nodes' clocks are set before they start, so that a minute of theirs ends soon after.
func TestBillsAreExactThroughKillsAndARestore(t *testing.T) {
	random := rand.New(rand.NewPCG(seed(t), 5))
	receiver := newBillReceiver(t)
	args := []string{"--sink-allow", "127.0.0.1"}

	c := newStoppedCluster(t, testcluster.Options{Nodes: 3, Policies: billPolicies(1_000_000, 1, "calls"), Args: args,
		Direct: true})
	l := newBillLoad(t)
	l.begin(c, 13*time.Second, -time.Minute)
	said(t, "sink", "create", "billing", "--kind", "webhook", "--url", receiver.URL, "--events", "threshold,usage",
		"--addr", "http://"+c.Addr(0))
	l.crossBoundary(random, billPolicies(2_000_000, 2, "requests"))
	if l.judge(); t.Failed() {
		t.FailNow()
	}

	l.touch() // the shards' time is past all that has expired, and so is the backup's
	known := l.snapshot()
	l.backedUp = l.now()
	file := filepath.Join(t.TempDir(), "stint.backup")
	if err := stint(t.Context(), "backup", file, "--addr", "http://"+c.Addr(1)); err != nil {
		t.Fatal(err)
	}
	l.run(random, l.now()+time.Second.Microseconds()) // is lost
	for i := range c.Len() {
		if err := c.Kill(i); err != nil {
			t.Fatal(err)
		}
	}
	after := newStoppedCluster(t, testcluster.Options{Nodes: 1, Args: args, Direct: true})
	const margin = 10e6 // a restored cluster's time goes on so much after the machine's
	l.restored[0] = time.Now().UnixMicro() + margin
	if err := stint(t.Context(), "restore", file, "--data-dir", after.Dir(0), "--node-id", after.Name(0),
		"--yes"); err != nil {
		t.Fatal(err)
	}
	l.restored[1] = time.Now().UnixMicro() + margin
	l.goBack(known)
	l.begin(after, 10*time.Second, 12*time.Second)
	l.crossBoundary(random, billPolicies(1_000_000, 1, "calls"))
	records := l.judge()
	receiver.judge(l, records)
	l.judgeVariety(receiver)
}

// begin starts a cluster with clocks that show the end of a minute after a while. They are ahead of the machine's by
// least or more.
func (l *billLoad) begin(c *testcluster.Cluster, after, least time.Duration) {
	l.t.Helper()
	now := time.Now()
	l.ahead = now.Add(least + after).Truncate(time.Minute).Add(time.Minute - after).Sub(now).Round(time.Millisecond)
	l.c, l.clients = c, crowd(c)
	for i := range c.Len() {
		if err := c.SetClock(i, l.ahead); err != nil {
			l.t.Fatal(err)
		}
		if err := c.Restart(i); err != nil {
			l.t.Fatal(err)
		}
	}
	ready(l.t, c)
}

// crossBoundary runs the load over the end of a minute until some time after it is final, kills nodes at both, and
// applies policies shortly before.
func (l *billLoad) crossBoundary(random *rand.Rand, policies string) {
	l.t.Helper()
	const minute = int64(time.Minute / time.Microsecond)
	end := (l.now()+5e6)/minute*minute + minute
	final := end + billGrace.Microseconds()
	stop := l.watch()
	defer stop()
	var load sync.WaitGroup
	loaded := rand.New(rand.NewPCG(random.Uint64(), 6))
	load.Go(func() { l.run(loaded, final+4e6) })
	defer load.Wait()
	near := func(at int64) { // the random part is the moment of a kill
		l.sleepUntil(at - 60e3 + random.Int64N(80e3))
	}
	l.sleepUntil(end - 3e6)
	file := filepath.Join(l.t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		l.t.Fatal(err)
	}
	said(l.t, "apply", "-f", file, "--addr", "http://"+l.c.Addr(0))
	owner, err := anOwner(l.c, int(end/minute))
	if err != nil {
		l.t.Fatal(err)
	}
	near(end)
	if err := l.c.Kill(owner); err != nil {
		l.t.Fatal(err)
	}
	l.sleepUntil(end + 1e6)
	if err := l.c.Restart(owner); err != nil {
		l.t.Fatal(err)
	}
	near(final)
	for i := range l.c.Len() {
		if err := l.c.Kill(i); err != nil {
			l.t.Fatal(err)
		}
	}
	restartDead(l.t, l.c)
	load.Wait()
	await.Until(l.t, "no hold is about to expire", l.quiet)
}

func (l *billLoad) sleepUntil(at int64) {
	pause(l.t.Context(), time.Duration(at-l.now())*time.Microsecond)
}
