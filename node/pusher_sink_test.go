package node

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// adminElsewhere is the administration of sinks on another node, which reads them by itself.
func adminElsewhere(n *Node) *sinkAdmin {
	defer n.sinkAdmin.turns.take()()
	other := *n.sinkAdmin
	other.turns = newTurns()
	return &other
}

// withoutSystemShard is an administration of sinks that has read them at an instant, and can no longer reach them.
func withoutSystemShard(n *Node, read time.Time) *sinkAdmin {
	a := adminElsewhere(n)
	nowhere := routing.New(routing.Config{
		Slots:    n.slots,
		Places:   func(shard.ID) []string { return nil },
		Local:    func(shard.ID) (routing.Owner, bool) { return nil, false },
		Leader:   func(shard.ID) string { return "" },
		Hints:    n.hints,
		Sessions: func(shard.ID) bool { return false },
	})
	a.documents = &documents{router: nowhere, logger: a.logger, learning: newTurns()}
	config := a.sinks.documentConfig
	config.of = a.documents
	a.sinks, a.read = newDocument(config), read
	return a
}

// billOfTheDay has a key billed, and the clock stand at an instant after the end of its day.
func billOfTheDay(t *testing.T, n *Node, clock testClockAdmin, after time.Duration) {
	t.Helper()
	if r := ask(n, shard.Check, "plan", "customer:acme"); r.Err != nil {
		t.Fatal(r.Err)
	}
	now := clock.clock.now()
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	if _, err := clock.Advance(t.Context(), midnight.Add(after).Sub(now)); err != nil {
		t.Fatal(err)
	}
}

// replace deletes a sink and makes another one under its name.
func replace(t *testing.T, n *Node, s notify.Sink) {
	t.Helper()
	if err := n.sinkAdmin.Delete(t.Context(), s.Name, "jo"); err != nil {
		t.Fatal(err)
	}
	sendBillsTo(t, n, s)
}

// A bill that becomes final after a sink was made anew under its name is sent to that one, also by a node that has not
// heard of it yet.
func TestABillIsSentToTheSinkThatHasTheName(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		former, latter := newInvoices(t), newInvoices(t)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sink := notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: former.URL + "/bills"}
		sendBillsTo(t, n, sink)
		const final = 15 * time.Minute
		billOfTheDay(t, n, clock, final-5*time.Second)
		late := newOwner(n)
		late.sinks = adminElsewhere(n)
		late.round(t.Context())
		sink.URL = latter.URL + "/bills"
		replace(t, n, sink)
		if _, err := clock.Advance(t.Context(), 7*time.Second); err != nil {
			t.Fatal(err)
		}
		late.round(t.Context())
		if _, err := clock.Advance(t.Context(), pushSinksEvery); err != nil {
			t.Fatal(err)
		}
		late.round(t.Context())
		before, _ := former.count()
		after, _ := latter.count()
		if before != 0 || after != 1 {
			t.Errorf("%d bills for the sink that is gone, %d for its successor", before, after)
		}
	})
}

// A receiver that is gone disables its sink, and no other one that has its name by then.
func TestAReceiverThatIsGoneDisablesNoSuccessor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		former, latter := newInvoices(t), newInvoices(t)
		former.setAnswer(func(map[string]string) int { return http.StatusGone })
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sink := notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: former.URL + "/bills"}
		sendBillsTo(t, n, sink)
		billOfTheDay(t, n, clock, time.Hour)
		late := newOwner(n)
		late.sinks = adminElsewhere(n)
		late.learnSinks(t.Context())
		sink.URL = latter.URL + "/bills"
		replace(t, n, sink)
		late.round(t.Context())
		if late.failing()["invoices"] == "" {
			t.Fatal("the receiver was not asked")
		}
		all, err := n.sinkAdmin.Sinks(t.Context())
		if err != nil || len(all) != 1 || all[0].Disabled != nil {
			t.Errorf("%v: %+v", err, all)
		}
	})
}

// How long a sink is left alone is no matter of the one that gets its name.
func TestASuccessorDoesNotRestForASink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		former := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		former.Start()
		t.Cleanup(former.Close)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sink := notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: former.URL + "/bills"}
		sendBillsTo(t, n, sink)
		billOfTheDay(t, n, clock, time.Hour)
		owner := newOwner(n)
		owner.round(t.Context())
		if owner.failing()["invoices"] == "" {
			t.Fatal("the receiver was not asked")
		}
		if err := n.sinkAdmin.Delete(t.Context(), "invoices", "jo"); err != nil {
			t.Fatal(err)
		}
		owner.round(t.Context())
		sink.URL = v.URL + "/bills"
		sendBillsTo(t, n, sink)
		billOfTheDay(t, n, clock, time.Hour)
		owner.round(t.Context())
		if bills, _ := v.count(); bills != 1 || len(owner.failing()) != 0 {
			t.Errorf("%d bills, failing: %v", bills, owner.failing())
		}
	})
}

// A node that failed to send bills fails no longer when another one has sent them, or there is nobody to send them to.
func TestASinkFailsNoLongerThanItIsOwedSomething(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		v.setDown(true)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"})
		for _, end := range []func(){
			func() {
				v.setDown(false)
				newOwner(n).round(t.Context())
				v.setDown(true)
			},
			func() {
				if err := n.sinkAdmin.Delete(t.Context(), "invoices", "jo"); err != nil {
					t.Fatal(err)
				}
			},
		} {
			billOfTheDay(t, n, clock, time.Hour)
			owner := newOwner(n)
			owner.round(t.Context())
			if !strings.Contains(owner.failing()["invoices"], "500") {
				t.Fatalf("failing: %v", owner.failing())
			}
			// No event fails: what is told of the sink does not depend on that.
			d := &dispatcher{failingSinks: owner.failing}
			d.metrics, d.pace = owner.metrics, owner.pace
			d.start()
			d.tell()
			if got := scraped(n, `stint_sink_failing{sink="invoices"}`); got != "1" {
				t.Errorf("while the sink takes no bills: %q", got)
			}
			end()
			time.Sleep(time.Second) // it has rested
			owner.round(t.Context())
			if failing := owner.failing(); len(failing) > 0 {
				t.Errorf("still failing: %v", failing)
			}
			d.tell()
			if got := scraped(n, `stint_sink_failing{sink="invoices"}`); got != "" {
				t.Errorf("still told to fail: %q", got)
			}
		}
	})
}

// Bills that Stripe may have forgotten are not sent before somebody has looked, although the node that finds them
// cannot disable their sink: what it noted of them stays.
func TestBillsThatStripeMayHaveForgottenWaitForTheSinkToBeDisabled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		v.setDown(true)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "money")
		sendBillsTo(t, n, notify.Sink{Name: "money", Kind: notify.Stripe, URL: v.URL + "/v1/billing/meter_events",
			Prefix: "customer:", Secrets: []notify.Secret{{Key: []byte("sk_test_1")}}})
		billOfTheDay(t, n, clock, time.Hour)
		owner := newOwner(n)
		owner.round(t.Context())
		if owner.failing()["money"] == "" {
			t.Fatal("the receiver was not asked")
		}
		if _, err := clock.Advance(t.Context(), notify.GiveUpStripe+time.Minute); err != nil {
			t.Fatal(err)
		}
		v.setDown(false)
		owner.sinks = withoutSystemShard(n, owner.readAt)
		owner.round(t.Context())
		for range 2 {
			newOwner(n).round(t.Context())
			if _, forms := v.count(); forms != 0 {
				t.Fatalf("%d bills before somebody has looked", forms)
			}
		}
		all, err := n.sinkAdmin.Sinks(t.Context())
		if err != nil || len(all) != 1 || all[0].Disabled == nil {
			t.Fatalf("%v: %+v", err, all)
		}
		if err := n.sinkAdmin.SetEnabled(t.Context(), "money", true, "jo"); err != nil {
			t.Fatal(err)
		}
		newOwner(n).round(t.Context())
		if _, forms := v.count(); forms != 1 {
			t.Errorf("%d bills after somebody has looked", forms)
		}
	})
}
