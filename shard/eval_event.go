package shard

import (
	"cmp"
	"fmt"
)

var errUnknownEvents = Invalidf("system", "asks nothing about events that this version knows: run a newer one")

// events answers the requests about events.
func (b *batch) events(r *Request) Result {
	terms := r.systemTerms()
	switch {
	case r.Op == ReadEventPage && terms.Events != nil:
		return b.eventPage(terms.Events)
	case r.Op == NoteSpike && terms.Spike != nil:
		return b.noteSpike(r, terms.Spike)
	case r.Op == ChangeEvents && terms.Push != nil:
		return b.notePush(*terms.Push)
	case r.Op != ChangeEvents || terms.Change == nil:
		return Result{Err: errUnknownEvents}
	}
	x := terms.Change
	if len(x.Places) > placesMost || len(x.Why) > WhyMost || x.Verb < acknowledgeEvents || x.Verb > replayEvents {
		return Result{Err: errUnknownEvents}
	}
	if err := r.Adjustment.auditProblem(); err != nil {
		return Result{Err: err}
	}
	return b.changeEvents(x, r.Adjustment)
}

// changeEvents changes what is owed. by is the actor of a replay; nil leaves no audit record.
func (b *batch) changeEvents(x *EventsChange, by *Adjustment) Result {
	o := openOutbox(b)
	var c EventsChanged
	if x.Verb == replayEvents {
		if c = o.replay(x.Sink, x.Places); c.Done > 0 && by != nil { //mutant:replay-not-audited
			auditLog{b}.note(by, AuditRecord{Deed: "replay", Namespace: DefaultNamespace,
				After: fmt.Sprintf("%d dead letters of %s wait again", c.Done, cmp.Or(x.Sink, "all sinks"))})
		}
	} else {
		for _, p := range x.Places {
			e, owed := o.release(p, x.Sink)
			if owed && x.Verb == giveUpEvents {
				o.bury(e, []string{x.Sink}, x.Why)
			}
			c.Done += uint32(bit(owed))
		}
	}
	if c.Done > 0 {
		o.oldest() // so that readers begin there
		o.save()
	}
	return b.answerOf(SystemAnswer{Changed: &c})
}

func (b *batch) eventPage(q *EventsQuery) Result {
	if q.List > EventsPast {
		return Result{Err: errUnknownEvents}
	}
	page, err := eventsOf(b.lookup, q)
	if err != nil {
		return Result{Err: unreadable("", "the outbox", err)}
	}
	return b.answerOf(SystemAnswer{Events: &page})
}
