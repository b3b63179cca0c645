package node

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// pushing configures a node with a meter in its policies.
func pushing(t *testing.T, c *Config) {
	t.Helper()
	if err := os.WriteFile(c.PoliciesFile, []byte(meteredPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c.AcceptTime = true
	c.SinkAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.World.Sinks.Pace = notify.Pace{Backoff: time.Millisecond, Pause: time.Millisecond}
}

// dayAndGrace is how long it takes at most until the bills of a day of meteredPolicy are final.
const dayAndGrace = 24*time.Hour + 15*time.Minute

// A restore takes the position of a push back to the backup's. What was pushed since comes again under the ids that it
// had, what was noted in the backup does not, and nothing is left out: neither what was not pushed yet, nor what
// becomes final afterwards.
func TestARestoreTakesAPushBackAndNoFurther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"})
		const keys, later = 600, 5
		for i := range keys {
			ask(n, shard.Check, "plan", fmt.Sprint("a", i))
		}
		endDay(t, clock)
		dying := newOwner(n) // has one batch of each shard noted
		noted := map[shard.ID]int{}
		dying.decide = func(ctx context.Context, requests []shard.Request) []shard.Result {
			on := requests[0].Shard
			if noted[on]++; noted[on] > 1 {
				return []shard.Result{{Err: &shard.Error{Code: shard.UnknownOutcome, Message: "it died"}}}
			}
			return n.router.Decide(ctx, requests)
		}
		dying.round(t.Context())
		for i := range later {
			ask(n, shard.Check, "plan", fmt.Sprint("b", i))
		}
		file, taken := backedUp(t, n), clock.clock.aheadBy()
		for i := range later {
			ask(n, shard.Check, "plan", fmt.Sprint("b", i)) // lost
		}
		newOwner(n).round(t.Context())
		endDay(t, clock)
		newOwner(n).round(t.Context())
		if bills, _ := v.count(); bills != keys+later {
			t.Fatalf("%d bills before the restore, want %d", bills, keys+later)
		}
		before, times := maps.Clone(v.bills), maps.Clone(v.times)
		noMore, err := n.documents.ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		stop(t, n)
		config := onRealDisk(t)
		time.Sleep(taken + 45*time.Minute) // after the backup
		pushing(t, &config)
		config.NodeID, config.DataDir = "r1", filepath.Join(t.TempDir(), "restored")
		if err := planned(t, file, restore.Config{DataDir: config.DataDir, NodeID: config.NodeID, Now: time.Now()}).
			Write(); err != nil {
			t.Fatal(err)
		}
		again := func(prefix byte) (n int) { // bills of some keys that came since
			v.mu.Lock()
			defer v.mu.Unlock()
			for id, bill := range v.bills {
				if bill.Key[0] == prefix {
					n += v.times[id] - times[id]
				}
			}
			return n
		}
		n = start(t, config)
		unnoted := keys - pushBatch*n.view.shards()
		await.Until(t, "the push goes on from the backup", func() bool { return again('a') >= unnoted })
		nextDay := func() {
			stop(t, n)
			time.Sleep(dayAndGrace)
			n = start(t, config)
		}
		nextDay()
		await.Until(t, "what was not final in the backup is pushed", func() bool { return again('b') == later })
		for i := range later {
			if r := ask(n, shard.Check, "plan", fmt.Sprint("c", i)); r.Err != nil || !r.Decision.Allowed {
				t.Fatalf("%+v", r)
			}
		}
		nextDay()
		await.Until(t, "what was admitted after the restore is pushed", func() bool { return again('c') == later })
		defer stop(t, n)

		if got := again('a'); got != unnoted {
			t.Errorf("%d bills of the first day came again, want the %d that the backup had no note of", got, unnoted)
		}
		if ledger, err := n.documents.ledger(t.Context()); err == nil && ledger != noMore {
			t.Error("the ledger is another one")
		}
		ids := map[string]string{}
		for id, bill := range v.bills {
			period := bill.Key + " " + bill.Start
			if ids[period] != "" {
				t.Errorf("%s has two ids: %s and %s", period, ids[period], id)
			}
			ids[period] = id
			was, known := before[id]
			switch bill.Key[0] {
			case 'a':
				if bill != was {
					t.Errorf("a bill that was final has changed: %+v, and was %+v", bill, was)
				}
			case 'b':
				if !known || !bill.Recovered || bill.Revision <= was.Revision || was.Units != 2 {
					t.Errorf("a bill of the lost time: %+v, and was %+v", bill, was)
				}
			}
		}
		if len(ids) != keys+2*later {
			t.Errorf("%d bills, want %d", len(ids), keys+2*later)
		}
	})
}
