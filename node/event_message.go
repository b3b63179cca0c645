package node

import (
	"encoding/json"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// eventTypes are the names of events in messages. Receivers depend on them.
var eventTypes = map[shard.EventKind]string{shard.EventThreshold: "threshold.reached",
	shard.EventSpike: "denials.spike"}

// envelope is the form that Standard Webhooks proposes. Fields may be added.
type envelope struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"` // of the event
	ID        string `json:"id"`        // as in webhook-id
	Data      any    `json:"data"`
}

// eventData are the figures of an event. Instants are in RFC 3339. A figure that may be 0 is a pointer: it is absent
// from events of other kinds only.
type eventData struct {
	Namespace string  `json:"namespace"`
	Policy    string  `json:"policy"`
	Key       string  `json:"key"`
	Shadow    bool    `json:"shadow,omitempty"`
	Limit     string  `json:"limit,omitempty"`
	Threshold string  `json:"threshold,omitempty"` // as in the policies: "80%" or "500"
	Units     uint64  `json:"units,omitempty"`     // the threshold in units
	Used      *uint64 `json:"used,omitempty"`
	Quota     uint64  `json:"quota,omitempty"`
	Denials   uint64  `json:"denials,omitempty"` // in the minute of a spike
	Mean      *uint64 `json:"mean,omitempty"`    // a minute, in the ten minutes before
	Start     string  `json:"start,omitempty"`   // absent: the window has no beginning
	End       string  `json:"end,omitempty"`     // absent: never
}

// eventMessage is an event in its form on the wire. The same event has the same bytes at each try.
func eventMessage(id string, e *shard.Event) notify.Message {
	data := eventData{
		Namespace: e.Namespace,
		Policy:    e.Policy,
		Key:       e.Key,
		Shadow:    e.Shadow,
		Limit:     e.Limit,
		Quota:     e.Quota,
	}
	if e.Start != 0 {
		data.Start = rfc3339(e.Start)
	}
	if e.End != limit.Forever {
		data.End = rfc3339(e.End)
	}
	if e.Kind == shard.EventThreshold {
		data.Threshold, data.Units, data.Used = e.Threshold.String(), e.Units, &e.Used
	} else {
		data.Denials, data.Mean = e.Denials, &e.Mean
	}
	return jsonMessage(id, eventTypes[e.Kind], e.At, data)
}

func jsonMessage(id, kind string, at limit.Time, data any) notify.Message {
	body, err := json.Marshal(envelope{kind, rfc3339(at), id, data})
	if err != nil {
		panic(err) // texts and numbers
	}
	return notify.Message{ID: id, ContentType: "application/json", Body: body}
}

func rfc3339(t limit.Time) string { return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339Nano) }
