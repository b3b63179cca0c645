package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// judgeEvents compares the events that the shard has with the thresholds that the twin has seen crossed: each has
// exactly one event, with an id of its own.
func (r *run) judgeEvents() {
	record, _ := r.owner.Lookup(string(outboxRecord))
	if string(record.Value) == r.told {
		return
	}
	r.told = string(record.Value)
	var got []model.Fired
	ids := map[string]bool{}
	for _, list := range []EventList{EventsWaiting, EventsPast} {
		for q := (EventsQuery{List: list}); ; {
			page, err := ReadEvents(r.owner, q)
			if err != nil {
				panic(err)
			}
			for i := range page.Events {
				e := &page.Events[i]
				if ids[e.ID("ledger")] {
					panic(fmt.Errorf("at %d: %+v is there twice", r.now-origin, e))
				}
				ids[e.ID("ledger")] = true
				r.countEvent(e)
				got = append(got, model.Fired{Policy: e.Policy, Key: e.Key, Limit: e.Limit, Units: e.Units,
					Start: e.Start, End: e.End, At: e.At, Used: e.Used, Quota: e.Quota})
			}
			if q.From = page.Next; !page.More {
				break
			}
		}
	}
	for _, f := range r.history.Fired() {
		i := slices.Index(got, f)
		if i < 0 {
			panic(fmt.Errorf("at %d: no event tells %+v: %+v", r.now-origin, f, got))
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		panic(fmt.Errorf("at %d: nothing has crossed %+v", r.now-origin, got))
	}
}

// judgeFired compares the thresholds that a Get tells with those that the twin has seen crossed in windows that have
// not ended.
func (r *run) judgeFired(q *Request, result *Result) {
	if q.Op != Get || result.Err != nil {
		return
	}
	got := slices.Clone(result.Decision.Answer().Fired)
	for _, f := range r.history.Fired() {
		p, known := r.policies.Lookup(f.Policy)
		if f.End <= r.now || !known ||
			!slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.Name == f.Limit }) ||
			!slices.ContainsFunc(q.Entries, func(e Entry) bool {
				return e.Policy == f.Policy && e.Key == f.Key && e.Limits == nil
			}) {
			continue
		}
		i := slices.IndexFunc(got, func(g FiredThreshold) bool {
			return g.Policy == f.Policy && g.Limit == f.Limit && g.Key == f.Key && g.Units == f.Units &&
				g.Starts == f.Start && g.Ends == f.End
		})
		if i < 0 {
			panic(fmt.Errorf("at %d: a get does not tell that %+v has fired: %+v", r.now-origin, f, got))
		}
		got = slices.Delete(got, i, i+1)
		r.met["fired, says a get"]++
	}
	if len(got) > 0 {
		panic(fmt.Errorf("at %d: a get tells of %+v, which nothing has crossed", r.now-origin, got))
	}
}

func (r *run) countEvent(e *Event) {
	if e.At != r.now {
		return
	}
	r.met["fired"]++
	if len(e.Sinks) == 0 {
		r.met["fired without a sink"]++
	}
	switch {
	case e.End == limit.Forever:
		r.met["fired for ever"]++
	default:
		r.met["fired in a period"]++
	}
	if slices.ContainsFunc(r.history.Fired(), func(f model.Fired) bool {
		return f.Policy == e.Policy && f.Key == e.Key && f.Limit == e.Limit && f.Units == e.Units && f.End <= e.Start
	}) {
		r.met["fired again in the next window"]++
	}
}
