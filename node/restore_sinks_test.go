package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/shard"
)

// A restored cluster sends Stripe nothing before somebody has looked: the backup does not know what was sent since, and
// Stripe forgets it. Only if nothing is lost and each slot stays where it was, the positions of pushes are as they
// were.
func TestARestoreDisablesSinksOfStripe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n, _ := meteredNode(t)
		sendBillsTo(t, n,
			notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: "http://127.0.0.1:1"},
			notify.Sink{Name: "money", Kind: notify.Stripe, URL: "http://127.0.0.1:1", Prefix: "customer:",
				Secrets: []notify.Secret{{Key: []byte("sk_test_1")}}})
		file := backedUp(t, n)
		stop(t, n)
		for what, c := range map[string]struct {
			recovered, system, disables bool
			shards                      uint32
		}{
			"a backup of a running cluster":   {disables: true},
			"nothing is lost":                 {recovered: true, system: true},
			"the sinks may be older":          {recovered: true, disables: true},
			"slots are on other shards":       {recovered: true, system: true, shards: 3, disables: true},
			"slots of a backup on other ones": {shards: 3, disables: true},
		} {
			b := mustRead(t, file)
			if c.recovered {
				b.Recovery = &backup.Recovery{Actor: "ann"}
				for range b.Data {
					b.Recovery.Shards = append(b.Recovery.Shards, backup.RecoveredFrom{Exact: true})
				}
				b.Recovery.Shards = append(b.Recovery.Shards, backup.RecoveredFrom{Exact: c.system})
			}
			r, err := restore.Plan(b, restore.Config{Now: time.Now(), Version: "test", Shards: c.shards})
			if err != nil {
				t.Fatal(err)
			}
			document, err := shard.ReadDocument(r.System, notify.Document)
			if err != nil {
				t.Fatal(err)
			}
			sinks, err := notify.Decode(document.Body)
			if err != nil || len(sinks) != 2 || sinks[0].Disabled != nil ||
				string(sinks[1].Secrets[0].Key) != "sk_test_1" {
				t.Fatalf("%s: %v, %+v", what, err, sinks)
			}
			if money := sinks[1].Disabled; (money != nil) != c.disables ||
				c.disables && !strings.Contains(money.Why, "restore") {
				t.Errorf("%s: disabled %+v", what, money)
			}
		}
	})
}
