package node

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

const (
	// dispatchEvery is how often a node looks for events of its shards.
	dispatchEvery = 500 * time.Millisecond
	// dispatchShare is the share of its time, one in so many, that it spends on reading them: a long outbox is read
	// less often.
	dispatchShare = 20
	// dispatchWindow bounds the events of one shard for one sink that it knows at a time, the oldest first.
	dispatchWindow = 256
	// sinksEvery is how old may be what is known of sinks while something waits for them.
	sinksEvery = 5 * time.Second
	// sinksWithin bounds one read, and settleWithin the acknowledgement of what was delivered.
	sinksWithin  = 2 * time.Second
	settleWithin = 5 * time.Second
	lastWithin   = time.Second // settleWithin of a node that stops
)

// dispatcher brings the events of the shards that this node owns to their sinks. It reads what is committed, posts it,
// and has the shard note that the sink owes nothing any more. If the owner changes in between, or the note is lost, the
// event is posted again, under the same id: at least once. Nothing waits for it, and what it knows besides the outbox
// may be forgotten. One goroutine runs it; failing may be called concurrently.
type dispatcher struct {
	sinkSender

	// Owned by the goroutine of run.
	schedule *notify.Schedule
	waiting  map[notify.Delivery]*waitingEvent
	known    map[string]*notify.Sink         // by name, as read last
	readNext time.Time                       // when the outboxes are
	ended    chan endedTry                   // has room for all tries under way: none waits for run, which may be over
	trying   sync.WaitGroup                  // tries, and all else that run has begun
	settled  map[settling][]shard.EventPlace // to be noted by their shards
	busy     map[settling]bool               // a note is under way
	noted    chan settling                   // notes that are over, done or failed
	spikesOf time.Time                       // the minute in which spikes were looked for last
	told     map[string]string               // the sinks that the metrics say fail

	// failingSinks says why sinks fail, with events or with bills.
	failingSinks func() map[string]string

	mu    sync.Mutex
	fails map[string]string // guarded by mu: why sinks did not take what they were sent last
}

// waitingEvent is an event that waits, and where.
type waitingEvent struct {
	shard.Event
	in shard.ID
}

// endedTry is a try with its outcome.
type endedTry struct {
	notify.Delivery
	notify.Outcome
	event *waitingEvent
	sink  *notify.Sink
}

// settling is what a shard is told about some events at once.
type settling struct {
	in   shard.ID
	sink string
	step notify.Step // Acknowledge or GiveUp
	why  string      // GiveUp
}

// start makes the state that run owns.
func (d *dispatcher) start() {
	d.schedule, d.ended, d.noted = notify.NewSchedule(d.pace), make(chan endedTry, notify.AtOnce),
		make(chan settling, notify.AtOnce)
	d.waiting, d.known = make(map[notify.Delivery]*waitingEvent), make(map[string]*notify.Sink)
	d.settled, d.busy = make(map[settling][]shard.EventPlace), make(map[settling]bool)
}

// run dispatches until ctx ends, and waits for its tries.
func (d *dispatcher) run(ctx context.Context) {
	d.start()
	defer d.poster.Close()
	tick := time.Tick(dispatchEvery)
	for {
		d.round(ctx)
		select {
		case e := <-d.ended:
			d.end(ctx, e)
		case s := <-d.noted:
			delete(d.busy, s)
		case <-d.sinks.woken:
		case <-tick:
		case <-ctx.Done():
			d.last(ctx)
			return
		}
	}
}

// last has shards note what was delivered before this node stops, so that it is not sent again.
func (d *dispatcher) last(ctx context.Context) {
	d.trying.Wait()
	clear(d.busy)
	for len(d.ended) > 0 {
		d.end(ctx, <-d.ended)
	}
	for s := range maps.Keys(d.settled) {
		d.settle(ctx, s)
	}
	d.trying.Wait()
}

// round reads what waits, tries what is due, and has shards note what became of earlier tries.
func (d *dispatcher) round(ctx context.Context) {
	d.spikes(ctx)
	if now := d.now(); !now.Before(d.readNext) {
		d.read()
		d.readNext = now.Add(max(dispatchEvery, dispatchShare*d.now().Sub(now)))
	}
	if len(d.waiting) > 0 && d.learnSinks(ctx) {
		d.dispatch(ctx)
	}
	for s := range maps.Keys(d.settled) {
		d.settle(ctx, s)
	}
	d.tell()
}

// read takes what waits in the outboxes of the shards that are owned here.
func (d *dispatcher) read() {
	var all []notify.Waiting
	now, waiting, perSink := d.now(), make(map[notify.Delivery]*waitingEvent), make(map[string]int)
	for _, r := range d.replicas.all() {
		if r.Shard == shard.System {
			continue
		}
		if !r.actor.Open() || r.stopped.Load() != nil {
			d.metrics.EventsWaiting(uint32(r.Shard), 0, 0)
			d.tellLost(r) //mutant:new-owner-loses-again
			continue
		}
		clear(perSink)
		for _, e := range d.outbox(r) {
			event, id, at := &waitingEvent{e, r.Shard}, e.ID(d.ledger), time.UnixMicro(int64(e.At))
			for _, sink := range e.Sinks {
				delivery := notify.Delivery{Sink: sink, Event: id}
				if perSink[sink]++; perSink[sink] > dispatchWindow || waiting[delivery] != nil {
					continue
				}
				waiting[delivery] = event
				all = append(all, notify.Waiting{Delivery: delivery, At: at,
					Until: notify.Until(at, now, notify.GiveUpAfter)})
			}
		}
	}
	d.waiting = waiting
	d.schedule.Sync(all)
}

// tellLost tells what a shard has lost that another node owns. Otherwise it would seem to be lost when it comes here.
func (d *dispatcher) tellLost(r *replica) {
	var page shard.EventsPage
	var err error
	r.group.View(func(s *shard.State) {
		page, err = shard.ReadEvents(s, shard.EventsQuery{List: shard.EventsWaiting, Most: 1})
	})
	if err == nil { // else the owner says so
		d.metrics.EventsLost(uint32(r.Shard), page.Lost)
	}
}

// outbox returns the events of a shard that wait. It reads page by page, so that no other reader waits long for the
// state.
func (d *dispatcher) outbox(r *replica) (events []shard.Event) {
	for q := (shard.EventsQuery{List: shard.EventsWaiting}); ; {
		var page shard.EventsPage
		var err error
		r.group.View(func(s *shard.State) { page, err = shard.ReadEvents(s, q) })
		if err != nil {
			if mayComplain(&d.throttle, "outbox of "+r.Shard.String(), d.now()) {
				d.logger.Error("the outbox of a shard cannot be read: its events wait", "shard", r.Shard, "error", err)
			}
			return events
		}
		d.metrics.EventsWaiting(uint32(r.Shard), page.Waiting, page.Dead)
		d.metrics.EventsLost(uint32(r.Shard), page.Lost)
		events, q.From = append(events, page.Events...), page.Next
		if !page.More {
			return events
		}
	}
}

// learnSinks takes the sinks as they were read lately, and reports whether events can be sent: they have ids, and the
// sinks are known.
func (d *dispatcher) learnSinks(ctx context.Context) bool {
	nameless := d.ledger == ""
	sinks, anew := d.sinkSender.learnSinks(ctx, sinksEvery)
	if anew {
		for _, s := range d.known {
			if !slices.ContainsFunc(sinks, s.Is) {
				d.schedule.Renew(s.Name) //mutant:event-waits-for-another-sink
			}
		}
		clear(d.known)
		for _, s := range sinks {
			d.known[s.Name] = &s
		}
	}
	switch {
	case d.ledger == "":
		return false
	case nameless: // what was read of the outboxes has no ids yet
		d.readNext, d.waiting = time.Time{}, nil
		d.schedule.Sync(nil)
		return false
	}
	return true
}

// ready reports whether a sink takes anything.
func (d *dispatcher) ready(sink string) bool {
	s := d.known[sink]
	return s != nil && s.Disabled == nil
}

// dispatch starts the tries that are due.
func (d *dispatcher) dispatch(ctx context.Context) {
	now := d.now()
	for _, delivery := range d.schedule.Overdue(now, d.ready) {
		d.giveUp(d.waiting[delivery], delivery, "its sink is disabled, or there is none of that name")
	}
	for _, delivery := range d.schedule.Next(now, d.ready) {
		event, sink := d.waiting[delivery], d.known[delivery.Sink]
		if !sink.Takes(api.EventKinds[event.Kind]) {
			d.schedule.Ended(delivery, notify.Outcome{End: notify.Delivered}, now, 0)
			d.note(event, delivery.Sink, notify.Acknowledge, "")
			continue
		}
		message := eventMessage(delivery.Event, &event.Event)
		message.Retry = d.schedule.Retried(delivery)
		d.trying.Go(func() { d.ended <- endedTry{delivery, d.poster.Post(ctx, sink, message), event, sink} })
	}
}

// end notes what became of a try.
func (d *dispatcher) end(ctx context.Context, e endedTry) {
	if s := d.known[e.Sink]; s != nil && !s.Is(*e.sink) && e.End != notify.Delivered { //mutant:try-judges-a-successor
		e.Outcome = notify.Outcome{End: notify.Broken}
	}
	step := d.schedule.Ended(e.Delivery, e.Outcome, d.now(), rand.Float64())
	if e.End == notify.Broken {
		return
	}
	d.metrics.EventTried(e.Sink, e.End == notify.Delivered)
	if e.End != notify.Delivered && mayComplain(&d.throttle, "sink "+e.Sink, d.now()) {
		d.logger.Warn("a sink did not take an event; it is tried again", "sink", e.Sink, "event", e.Event, "why", e.Why)
	}
	if e.End == notify.Gone {
		d.disable(ctx, e.sink, e.Why)
	}
	switch step {
	case notify.Acknowledge:
		d.note(e.event, e.Sink, step, "")
	case notify.GiveUp:
		d.giveUp(e.event, e.Delivery, e.Why)
	}
}

// disable disables a sink if its receiver wants nothing any more.
func (d *dispatcher) disable(ctx context.Context, sink *notify.Sink, why string) {
	if s := d.known[sink.Name]; s == nil || s.Disabled != nil {
		return
	}
	delete(d.known, sink.Name) // nothing is sent until it is read again
	d.trying.Go(func() { d.sinkSender.disable(ctx, sink, why) })
}

// giveUp makes a delivery a dead letter.
func (d *dispatcher) giveUp(e *waitingEvent, delivery notify.Delivery, why string) {
	d.logger.Warn("an event is given up: it is a dead letter now",
		"sink", delivery.Sink, "event", delivery.Event, "why", why)
	d.note(e, delivery.Sink, notify.GiveUp, why)
}

// note has the shard of an event told what became of it, also if another node owns the shard by now.
func (d *dispatcher) note(e *waitingEvent, sink string, step notify.Step, why string) {
	s := settling{e.in, sink, step, why}
	d.settled[s] = append(d.settled[s], e.Place())
}

// settle tells a shard what became of events, unless it is being told already.
func (d *dispatcher) settle(ctx context.Context, s settling) {
	if d.busy[s] {
		return
	}
	places := d.settled[s]
	places = places[:min(len(places), dispatchWindow)]
	if d.settled[s] = d.settled[s][len(places):]; len(d.settled[s]) == 0 {
		delete(d.settled, s)
	}
	request := shard.AcknowledgeRequest(s.in, s.sink, places)
	if s.step == notify.GiveUp {
		request = shard.GiveUpRequest(s.in, s.sink, places, s.why)
	}
	d.busy[s] = true
	d.trying.Go(func() {
		// The answer was heard: a node that stops still notes it, so that the next owner does not send the event again.
		patience := settleWithin
		if ctx.Err() != nil {
			patience = lastWithin
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		r := d.decide(within, []shard.Request{request})[0]
		if r.Err != nil && ctx.Err() == nil {
			d.logger.Warn("a shard could not note what became of events; they are sent again",
				"shard", s.in, "sink", s.sink, "error", r.Err)
		}
		select {
		case d.noted <- s:
		case <-ctx.Done():
		}
	})
}

// tell says which sinks fail: with events, as the schedule knows, or with bills.
func (d *dispatcher) tell() {
	failing := d.schedule.Failing()
	d.mu.Lock()
	d.fails = failing
	d.mu.Unlock()
	all := d.failingSinks()
	for sink := range d.told {
		if all[sink] == "" {
			d.metrics.SinkFailing(sink, false)
		}
	}
	for sink := range all {
		d.metrics.SinkFailing(sink, true)
	}
	d.told = all
}

// failing says why sinks did not take what they were sent last, by this node.
func (d *dispatcher) failing() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.fails)
}
