package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// send sends some bills, all or none as far as this node knows. Those that are left out are told once the others are
// taken, so that tries which fail do not tell them again.
func (p *pusher) send(ctx context.Context, r *replica, s *notify.Sink, kept *shard.Push, at *shard.PushPosition,
	bills []shard.Usage) notify.Outcome {
	var left []leftOut
	var o notify.Outcome
	switch s.Kind {
	case notify.Stripe:
		o, left = p.sendToStripe(ctx, r, s, kept, at, bills)
	case notify.CloudEvents:
		o, left = p.sendCloudEvents(ctx, s, bills)
	default:
		return p.sendToWebhook(ctx, s, bills)
	}
	if o.End == notify.Delivered {
		skipBills(at, s, p.ledger, limit.Time(p.now().UnixMicro()), left)
		for _, u := range left {
			p.metrics.BillSkipped(s.Name)
			p.logger.Error("a bill was not sent, and will not be: enter it by hand",
				"sink", s.Name, "id", api.UsageID(p.ledger, u.Usage), "policy", u.Policy, "why", u.why)
		}
	}
	return o
}

// sendToWebhook sends bills in as few messages as they fit into.
func (p *pusher) sendToWebhook(ctx context.Context, s *notify.Sink, bills []shard.Usage) notify.Outcome {
	for len(bills) > 0 {
		message, n := p.batch(bills)
		message.Retry = p.tries(s, bills[:n])
		if o := p.poster.Post(ctx, s, message); o.End != notify.Delivered {
			if o.End == notify.Gone {
				p.disable(ctx, s, o.Why)
			}
			return o
		}
		bills = bills[n:]
	}
	return notify.Outcome{End: notify.Delivered}
}

// tries notes that a sink is sent some bills, and reports whether it was sent one of them before, and may have it: only
// then has "I have it" one meaning.
func (p *pusher) tries(s *notify.Sink, bills []shard.Usage) (again bool) {
	if p.tried == nil {
		p.tried = make(map[string]map[string]bool)
	}
	tried := p.tried[s.Name]
	if tried == nil {
		tried = make(map[string]bool)
		p.tried[s.Name] = tried
	}
	for i := range bills {
		id := api.UsageID(p.ledger, &bills[i])
		again = again || tried[id] //mutant:untried-bill-is-a-retry
		tried[id] = true
	}
	return again
}

// batch makes a message of as many bills as fit into it.
func (p *pusher) batch(bills []shard.Usage) (m notify.Message, n int) {
	for n = len(bills); ; n = (n + 1) / 2 {
		records := make([]json.RawMessage, n)
		names := sha256.New()
		last := limit.Time(0)
		for i := range records {
			records[i] = api.UsageJSON(p.ledger, &bills[i], p.set)
			names.Write([]byte(api.UsageID(p.ledger, &bills[i])))
			last = max(last, bills[i].Final)
		}
		id := "bat_" + hex.EncodeToString(names.Sum(nil)[:16])
		if m = jsonMessage(id, "usage.final", last,
			map[string]any{"records": records}); len(m.Body) < notify.BodyMost || n == 1 {
			return m, n
		}
	}
}

// customer is what a payment provider calls the key of a bill. why says that it is sent no such bill.
func customer(s *notify.Sink, u *shard.Usage) (name, why string) {
	name, found := strings.CutPrefix(u.Key, s.Prefix)
	switch {
	case !found || name == "": //mutant:customer-without-name //mutant:key-without-prefix-billed
		return "", "its key does not begin with the sink's prefix"
	case u.Recovered: //mutant:recovered-period-pushed
		return "", "a restore has lost a part of it"
	}
	return name, ""
}

// owesNothing reports whether a payment provider has no use for a bill.
func owesNothing(u *shard.Usage) bool { return owed(u) == 0 && !u.Recovered }

// owed returns what a bill comes to; below 0 it is money back. Each of the figures is at most 1 << 62.
func owed(u *shard.Usage) int64 { return int64(u.Units) - int64(u.Credits) + u.Corrections }

// lastSecond is in the period of a bill, for a provider that asks when something was used.
func lastSecond(u *shard.Usage) time.Time {
	return time.UnixMicro(int64(u.End)).Add(-time.Second).UTC()
}

// disable disables a sink, and sends nothing to it until the sinks are read again.
func (p *pusher) disable(ctx context.Context, s *notify.Sink, why string) (disabled bool) {
	s.Disabled = &notify.Disabled{Why: why}
	return p.sinkSender.disable(ctx, s, why)
}
