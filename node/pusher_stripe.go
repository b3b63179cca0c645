package node

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// stripeOldest is less than the age at which Stripe takes no event any more.
const stripeOldest = 34 * 24 * time.Hour

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
		why := "bills of shard " + r.Shard.String() + " were first sent more than 20 hours ago, " +
			"and Stripe has not taken all: it may count those again that it has; look there at the first of " +
			api.UsageID(p.ledger, &bills[0]) + ", then enable the sink"
		if !p.disable(ctx, s, why) { //mutant:stripe-sent-unlooked
			return notify.Outcome{Why: why}, nil
		}
		at.Tried = 0 // whoever enables the sink has looked
		if err := p.note(ctx, r, kept, *at); err != nil {
			return notify.Outcome{Why: err.Error()}, nil
		}
		return notify.Outcome{Why: why}, nil
	}
	for i := range bills {
		u := &bills[i]
		if owesNothing(u) {
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
