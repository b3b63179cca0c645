package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

const (
	eventCountDefault = 100
	eventCountMax     = 1000
	replayMost        = 10_000 // requests to one shard, each of which replays as much as fits into an entry
)

// The states of events in messages.
const (
	eventWaiting = "waiting"
	eventDead    = "dead"
)

// eventLists are the lists of a shard by their state.
var eventLists = map[string]shard.EventList{eventWaiting: shard.EventsWaiting, eventDead: shard.EventsDead}

// EventKinds are the names by which sinks take kinds of events.
var EventKinds = map[shard.EventKind]string{shard.EventThreshold: notify.Threshold, shard.EventSpike: notify.Spike}

// listedEvent is an event for one sink, and its location.
type listedEvent struct {
	shard.Event
	id, sink, state string   // id is Event.ID, the same for all sinks
	in              shard.ID // the shard that keeps it
}

// eventFilter selects events; "" matches all.
type eventFilter struct {
	sink, state, id string
	count           int // for one state, on one shard
}

func (s sinkService) listEvents(
	ctx context.Context, m *stintv1.ListEventsRequest,
) (*stintv1.ListEventsResponse, error) {
	f := eventFilter{sink: m.Sink, state: m.State, count: cmp.Or(int(m.Count), eventCountDefault)}
	if f.count < 1 || f.count > eventCountMax {
		return nil, shard.Invalidf("count", "is %d: 1 to %d are allowed", m.Count, eventCountMax)
	}
	if _, known := eventLists[f.state]; !known && f.state != "" {
		return nil, shard.Invalidf("state", "%q is neither waiting nor dead", f.state)
	}
	shards := shard.ID(s.Shards())
	if shards == 0 {
		return nil, errNoCluster
	}
	response := &stintv1.ListEventsResponse{}
	var all []listedEvent
	wanted := f.count
	f.count++ // one more shows that there are more
	for id := range shards {
		some, err := s.eventsOn(ctx, id, &f)
		if err != nil {
			response.Missing = append(response.Missing, id.String())
			continue
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b listedEvent) int { return cmp.Compare(a.At, b.At) })
	response.More = len(all) > wanted
	all = all[:min(len(all), wanted)]
	why, err := s.whyWaiting(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		response.Events = append(response.Events, eventMessage(&all[i], why))
	}
	return response, nil
}

// whyWaiting returns a function that explains why a sink does not accept its events; it returns "" for a healthy sink.
func (s sinkService) whyWaiting(ctx context.Context) (func(sink string) string, error) {
	all, err := s.Sinks.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	why := make(map[string]string, len(all))
	for i := range all {
		why[all[i].Name] = all[i].Failing
		if all[i].Disabled != nil {
			why[all[i].Name] = "the sink is disabled: " + all[i].Disabled.Why
		}
	}
	return func(sink string) string {
		text, known := why[sink]
		if !known {
			return "there is no sink of that name"
		}
		return text
	}, nil
}

func eventMessage(e *listedEvent, why func(sink string) string) *stintv1.SinkEvent {
	m := &stintv1.SinkEvent{
		Id:        e.id,
		Sink:      e.sink,
		Kind:      EventKinds[e.Kind],
		State:     e.state,
		At:        timestamppb.New(time.UnixMicro(int64(e.At))),
		Namespace: e.Namespace,
		Policy:    e.Policy,
		Key:       e.Key,
		Limit:     e.Limit,
	}
	if e.state == eventWaiting {
		m.Why = why(e.sink)
	} else {
		m.Why = e.Why
	}
	return m
}

// eventsOn lists the events of one shard that match, oldest first in each state.
func (s sinkService) eventsOn(ctx context.Context, id shard.ID, f *eventFilter) (all []listedEvent, err error) {
	for _, state := range []string{eventDead, eventWaiting} {
		if f.state != "" && f.state != state {
			continue
		}
		some, err := s.eventsIn(ctx, id, state, f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// eventsIn lists the events of one shard in one state that match, oldest first. It reads whole pages, so there may be
// more than f.count.
func (s sinkService) eventsIn(
	ctx context.Context, id shard.ID, state string, f *eventFilter,
) (all []listedEvent, err error) {
	ledger, err := s.Cluster.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	for q := (shard.EventsQuery{List: eventLists[state]}); ; {
		d, err := decide(ctx, s.Decider, shard.EventsRequest(id, q))
		if err != nil {
			return nil, err
		}
		page, err := shard.EventsOf(d)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			name := e.ID(ledger)
			for _, sink := range e.Sinks {
				if (f.sink == "" || f.sink == sink) && (f.id == "" || f.id == name) {
					all = append(all, listedEvent{e, name, sink, state, id})
				}
			}
		}
		if q.From = page.Next; !page.More || len(all) >= f.count {
			return all, nil
		}
	}
}

func (s sinkService) replayEvents(ctx context.Context, who string, m *stintv1.ReplayEventsRequest) (
	*stintv1.ReplayEventsResponse, error) {
	shards := shard.ID(s.Shards())
	if shards == 0 {
		return nil, errNoCluster
	}
	response := &stintv1.ReplayEventsResponse{}
	for id := range shards {
		done, err := s.replayOn(ctx, id, m, &shard.Adjustment{Actor: who, Note: m.Note})
		response.Replayed += done
		if err != nil {
			return nil, err // those of earlier shards are replayed; another call finds the others
		}
	}
	if m.Id != "" && response.Replayed == 0 {
		return nil, shard.Invalidf("id", "there is no dead letter %q; stint sink events lists them", m.Id)
	}
	return response, nil
}

// replayOn replays the dead letters of one shard.
func (s sinkService) replayOn(
	ctx context.Context, id shard.ID, m *stintv1.ReplayEventsRequest, by *shard.Adjustment,
) (done uint32, err error) {
	var places []shard.EventPlace
	if m.Id != "" {
		found, err := s.eventsIn(ctx, id, eventDead, &eventFilter{sink: m.Sink, id: m.Id, count: 1})
		if err != nil || len(found) == 0 {
			return 0, err
		}
		places = append(places, found[0].Place())
	}
	for range replayMost {
		replay := shard.ReplayRequest(id, m.Sink, places)
		replay.Adjustment = by
		d, err := decide(ctx, s.Decider, replay)
		if err != nil {
			return done, err
		}
		changed, err := shard.EventsChangedOf(d)
		if done += changed.Done; err != nil || !changed.More {
			return done, err
		}
	}
	return done, nil
}
