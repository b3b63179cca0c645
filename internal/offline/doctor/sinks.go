package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// The checks of what leaves the cluster.
const (
	sinkCheck  = "sinks"
	eventCheck = "events"
)

// deadSome is the most dead letters that the doctor counts. Of more it says only that there are more.
const deadSome = 1000

// sinksOf fetches the sinks and the dead letters, and examines them.
func (d *doctor) sinksOf(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	service := d.Nodes[0].Sinks
	sinks, err := service.List(asking, connect.NewRequest(&stintv1.ListSinksRequest{}))
	if err == nil && len(sinks.Msg.Sinks) == 0 {
		d.fine(sinkCheck, "there are none")
	}
	var dead *connect.Response[stintv1.ListEventsResponse]
	if err == nil {
		dead, err = service.ListEvents(asking,
			connect.NewRequest(&stintv1.ListEventsRequest{State: "dead", Count: deadSome}))
	}
	switch code := connect.CodeOf(err); {
	case err == nil:
		d.sinks(sinks.Msg.Sinks)
		d.letters(dead.Msg)
	case code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated:
		d.unknown(sinkCheck, errors.New("this token may not see them"), "give it the operation sinks")
	case code == connect.CodeUnimplemented:
		d.unknown(sinkCheck, errors.New("this node runs a release without sinks"), "upgrade it")
	default:
		d.unknown(sinkCheck, err, "")
	}
}

// sinks checks whether each sink accepts its events.
func (d *doctor) sinks(all []*stintv1.Sink) {
	well := 0
	for _, s := range all {
		switch {
		case s.DisabledAt != nil:
			d.add(sinkCheck, Wrong, fmt.Sprintf("%s is disabled since %s: %s",
				s.Name, s.DisabledAt.AsTime().Format(time.RFC3339), s.DisabledWhy),
				"its events wait for three days: mend the cause, then stint sink enable "+s.Name)
		case s.Failing != "":
			d.add(sinkCheck, Wrong, fmt.Sprintf("%s does not take what it is sent: %s", s.Name, s.Failing),
				"mend what answers at "+s.Url+"; events are tried again for three days")
		default:
			well++
		}
	}
	if well > 0 && well == len(all) {
		d.fine(sinkCheck, "%s, and none fails", plural(well, "sink"))
	}
}

// letters examines events that were given up.
func (d *doctor) letters(m *stintv1.ListEventsResponse) {
	if len(m.Missing) > 0 {
		d.unknown(eventCheck, fmt.Errorf("shards that did not answer: %s", strings.Join(m.Missing, ", ")),
			"ask again when they have an owner")
	}
	if len(m.Events) == 0 {
		if len(m.Missing) == 0 {
			d.fine(eventCheck, "there are no dead letters")
		}
		return
	}
	found := plural(len(m.Events), "dead letter")
	if m.More {
		found = "more than " + found
	}
	d.add(eventCheck, Wrong, fmt.Sprintf("%s: the oldest is for the sink %s, of %s",
		found, m.Events[0].Sink, m.Events[0].At.AsTime().Format(time.RFC3339)),
		"stint sink events --state dead lists them; when the sink takes events again, stint sink events replay sends "+
			"them, with their ids. Older ones than 1,024 a shard are lost (stint_events_lost_total)")
}
