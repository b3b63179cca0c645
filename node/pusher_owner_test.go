package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// meteredNode is a node with a meter and a clock that the test moves. It is noon there.
func meteredNode(t *testing.T) (*Node, testClockAdmin) {
	t.Helper()
	config := testConfig(t)
	if err := os.WriteFile(config.PoliciesFile, []byte(meteredPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	config.Dev, config.TestClock = true, true
	config.SinkAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	config.World.Sinks.Pace = notify.Pace{Backoff: time.Millisecond, Pause: time.Millisecond}
	n := start(t, config)
	t.Cleanup(func() {
		if !n.stopping.Load() {
			stop(t, n)
		}
	})
	clock := testClockAdmin{n.config.testClock, n.view, n.router}
	toNoon(t, clock)
	return n, clock
}

// sendBillsTo makes sinks that take bills.
func sendBillsTo(t *testing.T, n *Node, sinks ...notify.Sink) {
	t.Helper()
	for _, s := range sinks {
		s.Events = []string{notify.Usage}
		if _, err := n.sinkAdmin.Create(t.Context(), s, "jo"); err != nil {
			t.Fatal(err)
		}
	}
}

// sendNoBillsTo has the node's own pusher leave a sink to those of the test.
func sendNoBillsTo(n *Node, sink string) {
	n.pusher.mu.Lock()
	defer n.pusher.mu.Unlock()
	n.pusher.rests[sink] = sinkRest{until: time.Now().AddDate(10, 0, 0)}
}

// toNoon moves the clock to the noon of the next day: a test that counts at midnight would count on two days.
func toNoon(t *testing.T, clock testClockAdmin) {
	t.Helper()
	now := clock.clock.now()
	noon := now.Truncate(24 * time.Hour).Add(36 * time.Hour)
	if _, err := clock.Advance(t.Context(), noon.Sub(now)); err != nil {
		t.Fatal(err)
	}
}

// endDay moves the clock until the bills of today are final.
func endDay(t *testing.T, clock testClockAdmin) {
	t.Helper()
	if _, err := clock.Advance(t.Context(), dayAndGrace); err != nil {
		t.Fatal(err)
	}
}

// newOwner is a pusher that knows what the log has, as one that has just begun to own the shards.
func newOwner(n *Node) *pusher {
	p := n.pusher
	return &pusher{rests: map[string]sinkRest{}, sinkSender: sinkSender{now: p.now, view: p.view, replicas: p.replicas,
		decide: p.decide, sinks: p.sinks, poster: p.poster, pace: p.pace, metrics: p.metrics, logger: p.logger}}
}

// An owner that dies between the answer of a receiver and its note has sent one batch, and the next one goes on from
// there: that batch comes again, with the same ids, and nothing else.
func TestANewOwnerGoesOnFromTheLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"})
		const keys = 600
		for i := range keys {
			if r := ask(n, shard.Check, "plan", fmt.Sprint(i)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		endDay(t, clock)
		noted := map[shard.ID]int{}
		dying := newOwner(n)
		dying.decide = func(ctx context.Context, requests []shard.Request) []shard.Result {
			if !strings.Contains(string(requests[0].System.Push.Position), `"Slots":`) {
				t.Error("a note does not say of which slots it passes the bills")
			}
			on := requests[0].Shard
			if noted[on]++; noted[on] > 1 {
				return []shard.Result{{Err: &shard.Error{Code: shard.UnknownOutcome, Message: "it died"}}}
			}
			return n.router.Decide(ctx, requests)
		}
		dying.round(t.Context())
		shards := n.view.shards()
		if bills, _ := v.count(); bills != 2*pushBatch*shards {
			t.Fatalf("%d bills of the first two batches of %d shards", bills, shards)
		}
		newOwner(n).round(t.Context())
		newOwner(n).round(t.Context())
		twice := 0
		for id, times := range v.times {
			if times > 2 {
				t.Errorf("%s came %d times", id, times)
			}
			twice += times - 1
		}
		if bills, _ := v.count(); bills != keys || twice != pushBatch*shards {
			t.Errorf("%d of %d bills, %d of them twice, want one batch of each of %d shards",
				bills, keys, twice, shards)
		}
	})
}

// A receiver that answers 410 gets no more bills until somebody enables its sink.
func TestAReceiverOfBillsThatWantsNothingIsDisabled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		v.setAnswer(func(map[string]string) int { return http.StatusGone })
		n, clock := meteredNode(t)
		sendNoBillsTo(n, "invoices")
		sendBillsTo(t, n, notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"})
		ask(n, shard.Check, "plan", "acme")
		endDay(t, clock)
		owner := newOwner(n)
		owner.round(t.Context())
		all, err := n.sinkAdmin.Sinks(t.Context())
		if err != nil || len(all) != 1 || all[0].Disabled == nil || !strings.Contains(all[0].Disabled.Why, "410") {
			t.Fatalf("%v: %+v", err, all)
		}
		v.setAnswer(nil)
		newOwner(n).round(t.Context())
		if bills, _ := v.count(); bills != 0 {
			t.Error("a disabled sink got a bill")
		}
		if err := n.sinkAdmin.SetEnabled(t.Context(), "invoices", true, "jo"); err != nil {
			t.Fatal(err)
		}
		newOwner(n).round(t.Context())
		if bills, _ := v.count(); bills != 1 {
			t.Errorf("%d bills after it was enabled", bills)
		}
	})
}

// Stripe forgets identifiers. Bills without an answer for 20 hours are not sent again until somebody has looked; one
// that Stripe refuses keeps none of the others.
func TestBillsForStripeWaitForAPersonAfter20Hours(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v := newInvoices(t)
		v.setDown(true)
		n, clock := meteredNode(t)
		sendBillsTo(t, n, notify.Sink{Name: "money", Kind: notify.Stripe, URL: v.URL + "/v1/billing/meter_events",
			Prefix: "customer:", Secrets: []notify.Secret{{Key: []byte("sk_test_1")}}})
		for _, key := range []string{"customer:a", "customer:refused", "customer:b"} {
			ask(n, shard.Check, "plan", key)
		}
		endDay(t, clock)
		await.Until(t, "the sink fails", func() bool {
			all, err := n.sinkAdmin.Statuses(t.Context())
			return err == nil && len(all) == 1 && all[0].Failing != ""
		})
		if _, err := clock.Advance(t.Context(), notify.GiveUpStripe+time.Minute); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the sink is disabled", func() bool {
			all, err := n.sinkAdmin.Sinks(t.Context())
			return err == nil && all[0].Disabled != nil &&
				strings.Contains(all[0].Disabled.Why, "more than 20 hours ago")
		})
		v.setAnswer(func(form map[string]string) int {
			if form["payload[stripe_customer_id]"] == "refused" {
				return http.StatusBadRequest
			}
			return http.StatusOK
		})
		v.setDown(false)
		await.Until(t, "the bills arrive after the sink was enabled", func() bool {
			if err := n.sinkAdmin.SetEnabled(t.Context(), "money", true, "jo"); err != nil { // each shard parks its own
				t.Fatal(err)
			}
			if _, err := clock.Advance(t.Context(), pushSinksEvery); err != nil {
				t.Fatal(err)
			}
			_, forms := v.count()
			return forms == 2
		})
	})
}

// What Stripe cannot be sent is left out, each with its reason.
func TestBillsThatStripeCannotBeSent(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 15, 0, 0, time.UTC)
	p := &pusher{sinkSender: sinkSender{now: func() time.Time { return now }, logger: slog.New(slog.DiscardHandler)}}
	bill := func(change func(*shard.Usage)) *shard.Usage {
		u := &shard.Usage{Meter: "calls", Key: "customer:cus_1"}
		u.Units, u.End = 5, limit.Time(now.Add(-15*time.Minute).UnixMicro())
		change(u)
		return u
	}
	for _, c := range []struct {
		why    string
		change func(*shard.Usage)
	}{
		{"", func(*shard.Usage) {}},
		{"", func(u *shard.Usage) { u.Credits = 4 }},
		{"prefix", func(u *shard.Usage) { u.Key = "cus_1" }},
		{"prefix", func(u *shard.Usage) { u.Key = "customer:" }},
		{"a restore has lost a part", func(u *shard.Usage) { u.Recovered = true }},
		{"money back", func(u *shard.Usage) { u.Credits = 6 }},
		{"money back", func(u *shard.Usage) { u.Corrections = -6 }},
		{"", func(u *shard.Usage) { u.Credits, u.Corrections = 6, 2 }},
		{"35 days", func(u *shard.Usage) { u.End = limit.Time(now.Add(-stripeOldest).UnixMicro()) }},
	} {
		m, why := p.meterEvent(&notify.Sink{Prefix: "customer:"}, bill(c.change), "use_1")
		if (c.why == "") != (why == "") || !strings.Contains(why, c.why) || (why == "") != (len(m.Body) > 0) {
			t.Errorf("%q, want %q: %s", why, c.why, m.Body)
		}
		if u := bill(c.change); why == "" && !strings.Contains(string(m.Body),
			fmt.Sprintf("payload%%5Bvalue%%5D=%d&", int64(u.Units)-int64(u.Credits)+u.Corrections)) {
			t.Errorf("%+v comes to %s", *u, m.Body)
		}
	}
}
