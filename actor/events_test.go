package actor

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// theThresholds are those of every limit of a world.
var theThresholds = []policy.Threshold{{Percent: 60}, {Units: 5}, {Percent: 100}}

// thresholdsOf are those of a limit that has no quota to take a share of, if it has none.
func thresholdsOf(quota uint64) []policy.Threshold {
	if quota == 0 {
		return theThresholds[1:2]
	}
	return theThresholds
}

// theSink gets the events of the policies that have one.
const theSink = "billing"

func hasSink(name string) bool { return slices.Index(theNames, name)%2 == 0 }

// eventsOf returns a list of a shard's events.
func eventsOf(state *shard.State, list shard.EventList) (all []shard.Event, err error) {
	for q := (shard.EventsQuery{List: list}); ; {
		page, err := shard.ReadEvents(state, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if q.From = page.Next; !page.More {
			return all, nil
		}
	}
}

// acknowledgement acknowledges some of the committed events, including some that are acknowledged already: like a
// dispatcher that was stopped between a delivery and its acknowledgement.
func (w *world) acknowledgement(client int) *operation {
	waiting, err := eventsOf(w.log.state, shard.EventsWaiting)
	if err != nil || len(waiting) == 0 {
		return nil
	}
	from := w.random.IntN(len(waiting))
	var places []shard.EventPlace
	for _, e := range waiting[from:min(len(waiting), from+1+w.random.IntN(5))] {
		places = append(places, e.Place())
	}
	o := w.newOperation(shard.ChangeEvents, false)
	o.client, o.request = client, shard.AcknowledgeRequest(theShard, theSink, places)
	return o
}

// eventsAre checks that each crossing in the log has exactly one event, and that each is in the list where it belongs.
func (j *judge) eventsAre(w *world) error {
	var got []model.Fired
	ids := map[string]bool{}
	for _, list := range []shard.EventList{shard.EventsWaiting, shard.EventsPast} {
		events, err := eventsOf(w.log.state, list)
		if err != nil {
			return err
		}
		for i := range events {
			e := &events[i]
			if isMarker(e.Limit) {
				continue
			}
			if list == shard.EventsWaiting && !hasSink(e.Policy) {
				return fmt.Errorf("%+v waits for nobody", e)
			}
			if list == shard.EventsPast && hasSink(e.Policy) {
				w.tally.note("acknowledged")
			}
			if id := e.ID("ledger"); ids[id] {
				return fmt.Errorf("%+v is there twice", e)
			} else {
				ids[id] = true
			}
			w.tally.note("fired")
			got = append(got, model.Fired{Policy: e.Policy, Key: e.Key, Limit: e.Limit, Units: e.Units,
				Start: e.Start, End: e.End, At: e.At, Used: e.Used, Quota: e.Quota})
		}
	}
	if page, err := shard.ReadEvents(w.log.state, shard.EventsQuery{}); err != nil || page.Lost > 0 {
		return fmt.Errorf("%d events are lost, %v", page.Lost, err)
	}
	for _, f := range j.history.Fired() {
		i := slices.Index(got, f)
		if i < 0 {
			return fmt.Errorf("no event tells %+v", f)
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		return fmt.Errorf("nothing has crossed %+v", got)
	}
	return nil
}
