package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// stripeOldest is less than the age at which Stripe takes no event any more.
const stripeOldest = 34 * 24 * time.Hour

// leftOut is a bill that a sink is not sent, for ever: a person enters it.
type leftOut struct {
	*shard.Usage
	why string
}

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
		skip(at, s, p.ledger, limit.Time(p.now().UnixMicro()), left)
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

// isNothing reports whether a payment provider has no use for a bill.
func isNothing(u *shard.Usage) bool { return owed(u) == 0 && !u.Recovered }

// sendToStripe sends each bill as a meter event. Before the first one it notes when that was: Stripe knows an
// identifier for a day, so what was tried earlier and has no answer is a person's to look at.
func (p *pusher) sendToStripe(ctx context.Context, r *replica, s *notify.Sink, kept *shard.Push, at *shard.PushPosition,
	bills []shard.Usage) (o notify.Outcome, left []leftOut) {
	now := limit.Time(p.now().UnixMicro())
	switch {
	case at.Tried == 0:
		at.Tried = now
		if err := p.note(ctx, r, kept, *at); err != nil {
			return notify.Outcome{Why: err.Error()}, nil
		}
	case now-at.Tried > limit.Time(notify.GiveUpStripe.Microseconds()): //mutant:stripe-sent-what-it-forgot
		at.Tried = 0 // whoever enables the sink has looked
		if err := p.note(ctx, r, kept, *at); err != nil {
			return notify.Outcome{Why: err.Error()}, nil
		}
		why := "bills of shard " + r.Shard.String() + " were first sent more than 20 hours ago, " +
			"and Stripe has not taken all: it may count those again that it has; look there at the first of " +
			api.UsageID(p.ledger, &bills[0]) + ", then enable the sink"
		p.disable(ctx, s, why)
		return notify.Outcome{Why: why}, nil
	}
	for i := range bills {
		u := &bills[i]
		if isNothing(u) {
			continue
		}
		message, why := p.meterEvent(s, u, api.UsageID(p.ledger, u))
		o = notify.Outcome{End: notify.Refused, Why: why}
		if why == "" {
			o = p.poster.Post(ctx, s, message)
		}
		switch o.End {
		case notify.Delivered:
		case notify.Refused:
			left = append(left, leftOut{u, o.Why})
		default:
			return o, nil
		}
	}
	return notify.Outcome{End: notify.Delivered}, left
}

// meterEvent makes Stripe's form of a bill, or says why there is none.
func (p *pusher) meterEvent(s *notify.Sink, u *shard.Usage, id string) (m notify.Message, why string) {
	customer, why := customer(s, u)
	at := lastSecond(u)
	switch {
	case why != "":
		return m, why
	case owed(u) < 0: //mutant:refund-pushed-as-bill
		return m, "it is money back"
	case p.now().Sub(at) > stripeOldest: //mutant:stripe-sent-too-old
		return m, "Stripe takes no event that is 35 days old"
	}
	form := url.Values{"event_name": {u.Meter}, "identifier": {id}, "timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"payload[stripe_customer_id]": {customer}, "payload[value]": {strconv.FormatInt(owed(u), 10)}}
	return notify.Message{ID: id, ContentType: "application/x-www-form-urlencoded", Body: []byte(form.Encode())}, ""
}

// owed returns what a bill comes to; below 0 it is money back. Each of the figures is at most 1 << 62.
func owed(u *shard.Usage) int64 { return int64(u.Units) - int64(u.Credits) + u.Corrections }

// lastSecond is in the period of a bill, for a provider that asks when something was used.
func lastSecond(u *shard.Usage) time.Time {
	return time.UnixMicro(int64(u.End)).Add(-time.Second).UTC()
}

// disable disables a sink, and sends nothing to it until the sinks are read again.
func (p *pusher) disable(ctx context.Context, s *notify.Sink, why string) {
	p.logger.Warn("a sink is disabled", "sink", s.Name, "why", why)
	s.Disabled = &notify.Disabled{Why: why}
	p.outgoing.disable(ctx, s.Name, why)
}
