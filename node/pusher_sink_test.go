package node

import (
	"net/http"
	"testing"
	"time"

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
