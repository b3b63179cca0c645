package node

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// cloudEvent is a bill as a CloudEvent (version 1.0, in JSON), with what OpenMeter reads: a meter of OpenMeter picks
// its events by type and sums a field of data for each subject. Receivers tell copies by source and id.
type cloudEvent struct {
	Spec    string         `json:"specversion"`
	ID      string         `json:"id"`     // the bill's
	Source  string         `json:"source"` // always the same: the id is unique
	Type    string         `json:"type"`   // the name of the meter
	Subject string         `json:"subject"`
	Time    string         `json:"time"` // the last second of the period
	Data    cloudEventData `json:"data"`

	bill *shard.Usage // what the event is made of; not sent
}

// cloudEventData has the bill, and what it comes to.
type cloudEventData struct {
	Value  int64           `json:"value"` // what the bill comes to; less than 0 if it is money back
	Record json.RawMessage `json:"record"`
}

const (
	cloudEventsSource = "stint"
	cloudEventsType   = "application/cloudevents-batch+json"
)

// sendCloudEvents sends bills in batches, and leaves out what a person has to look at.
func (p *pusher) sendCloudEvents(
	ctx context.Context, s *notify.Sink, bills []shard.Usage,
) (o notify.Outcome, left []leftOut) {
	var events []cloudEvent
	for i := range bills {
		u := &bills[i]
		if owesNothing(u) {
			continue
		}
		subject, why := customer(s, u)
		if why != "" {
			left = append(left, leftOut{u, why})
			continue
		}
		events = append(events, cloudEvent{"1.0", api.UsageID(p.ledger, u), cloudEventsSource, u.Meter, subject,
			lastSecond(u).Format(time.RFC3339), cloudEventData{owed(u), api.UsageJSON(p.ledger, u, p.set)}, u})
	}
	refused, o := p.postCloudEvents(ctx, s, events, p.tries(s, bills))
	return o, append(left, refused...)
}

// postCloudEvents sends some events, and returns those that are not taken. A receiver answers 400 for a whole batch if
// it cannot take one event of it, and 409 if it has one already, so then it gets the halves. again: it was sent one of
// them in an earlier try.
func (p *pusher) postCloudEvents(
	ctx context.Context, s *notify.Sink, events []cloudEvent, again bool,
) (refused []leftOut, o notify.Outcome) {
	if len(events) == 0 {
		return nil, notify.Outcome{End: notify.Delivered}
	}
	body, err := json.Marshal(events)
	if err != nil {
		panic(err) // texts and numbers
	}
	o = p.poster.Post(ctx, s, notify.Message{ID: events[0].ID, ContentType: cloudEventsType, Body: body, Retry: again})
	switch {
	case o.End == notify.Gone:
		p.disable(ctx, s, o.Why)
		return nil, o
	case o.End == notify.Known && len(events) == 1:
		return nil, notify.Outcome{End: notify.Delivered}
	case o.End != notify.Refused && o.End != notify.Known:
		return nil, o
	case len(events) == 1: //mutant:refused-event-takes-its-batch
		return []leftOut{{events[0].bill, o.Why}}, notify.Outcome{End: notify.Delivered}
	}
	half := len(events) / 2
	if refused, o = p.postCloudEvents(ctx, s, events[:half], again); o.End != notify.Delivered {
		return nil, o
	}
	others, o := p.postCloudEvents(ctx, s, events[half:], again) //mutant:other-half-lost
	return append(refused, others...), o
}
