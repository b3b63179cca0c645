package notify

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rules of attempts.
const (
	// GiveUpAfter is how long an event is tried.
	GiveUpAfter = 3 * 24 * time.Hour
	// GiveUpStripe is the same for Stripe: it knows an identifier for a day, so a later copy could count twice.
	GiveUpStripe = 20 * time.Hour

	// latest is how long an event is tried that is older than that when it is first seen: a replayed dead letter.
	latest = time.Hour

	// settleTime is how long to wait for the acknowledgement of a delivery before it is tried again.
	settleTime = 5 * time.Second

	backoffFirst = 5 * time.Second // before the second attempt at an event, roughly
	backoffMost  = 4 * time.Hour
	pauseFirst   = time.Second // of a failed sink
	pauseMost    = time.Minute

	// SinkAtOnce and AtOnce bound the attempts under way, to one sink and in all.
	SinkAtOnce = 4
	AtOnce     = 32
)

// Delivery names one event on its way to one sink: the sink by its name, the event by its id.
type Delivery struct{ Sink, Event string }

// Waiting is a Delivery with the times that govern its attempts.
type Waiting struct {
	Delivery
	At    time.Time // of the event: the oldest is tried first
	Until time.Time // a failure from then on is its last
}

// Until returns the end of the attempts at an event that is first seen now. The time counts from the event and not from
// the first attempt, so a new owner of its shard does not prolong it.
func Until(at, now time.Time, within time.Duration) time.Time {
	if until := at.Add(within); now.Before(until) {
		return until
	}
	return now.Add(latest)
}

// Step is the next step of a delivery after an attempt.
type Step uint8

// Steps.
const (
	Wait        Step = iota // it is tried again later
	Acknowledge             // it is done
	GiveUp                  // it goes to the dead letters
)

// Schedule decides when to attempt each delivery. A failed delivery waits twice as long each time, from 5 s to 4 hours,
// plus or minus half of it. A failed sink gets one attempt at a time, a minute apart at most, until it accepts
// something: so ten thousand events that wait for a sink that is down are not ten thousand attempts. It has one owner;
// no method blocks.
type Schedule struct {
	pace    Pace
	waiting map[Delivery]*deliveryState // also those under way
	sinks   map[string]*sinkHealth      // by name; those without deliveries are forgotten
	flying  int                         // attempts under way, to all sinks
}

// deliveryState is a delivery of the last Sync, or one that was under way then.
type deliveryState struct {
	at       time.Time // as in Waiting
	until    time.Time // likewise
	next     time.Time // not before; zero: at once
	failures int       // since it was first seen here, or its sink was renewed; an attempt that Broken ended is none
	flying   bool      // from Next to Ended: nothing removes it meanwhile
	known    bool      // seen by the Sync in progress
	gone     bool      // not in the last Sync, but under way then
}

// sinkHealth is the state of a sink.
type sinkHealth struct {
	flying   int       // attempts under way
	failures int       // in a row, of any deliveries
	next     time.Time // not before, for any delivery
	why      string    // why the last attempt failed; "" if it did not
}

// Pace is the first waits. The zero value means Schedule's; tests use shorter ones.
type Pace struct{ Backoff, Pause time.Duration }

// NewSchedule makes an empty schedule.
func NewSchedule(p Pace) *Schedule {
	p = Pace{cmp.Or(p.Backoff, backoffFirst), cmp.Or(p.Pause, pauseFirst)}
	return &Schedule{pace: p, waiting: make(map[Delivery]*deliveryState), sinks: make(map[string]*sinkHealth)}
}

// Sync sets the waiting deliveries. Others are forgotten; if one is under way, it is not tried again.
func (s *Schedule) Sync(all []Waiting) {
	for _, w := range all {
		if known := s.waiting[w.Delivery]; known != nil {
			known.known, known.gone = true, false
			continue
		}
		s.waiting[w.Delivery] = &deliveryState{at: w.At, until: w.Until, known: true}
	}
	used := make(map[string]bool)
	for d, w := range s.waiting {
		if !w.known && !w.flying {
			delete(s.waiting, d)
			continue
		}
		w.known, w.gone = false, !w.known
		used[d.Sink] = true
	}
	maps.DeleteFunc(s.sinks, func(name string, h *sinkHealth) bool { return h.flying == 0 && !used[name] })
}

// Next returns the deliveries to attempt now, the oldest events first, and marks them as under way. Each one ends with
// Ended. ready reports whether a sink accepts any.
func (s *Schedule) Next(now time.Time, ready func(sink string) bool) (due []Delivery) {
	for _, d := range s.due(now) {
		w, h := s.waiting[d], s.health(d.Sink)
		if s.flying >= AtOnce {
			break
		}
		if h.flying >= h.atOnce() || !ready(d.Sink) {
			continue
		}
		w.flying = true
		h.flying++
		s.flying++
		due = append(due, d)
	}
	return due
}

// due lists the deliveries that may be tried now, the oldest events first.
func (s *Schedule) due(now time.Time) (all []Delivery) {
	for d, w := range s.waiting {
		if !w.flying && !w.gone && !w.next.After(now) && !s.health(d.Sink).next.After(now) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Delivery) int {
		if x, y := s.waiting[a].at, s.waiting[b].at; !x.Equal(y) {
			return x.Compare(y)
		}
		return cmp.Or(strings.Compare(a.Event, b.Event), strings.Compare(a.Sink, b.Sink))
	})
	return all
}

// health returns the state of a sink, a new one if there is none.
func (s *Schedule) health(sink string) *sinkHealth {
	h := s.sinks[sink]
	if h == nil {
		h = &sinkHealth{}
		s.sinks[sink] = h
	}
	return h
}

// atOnce returns how many attempts may be under way: one after a failure, and the others wait for its outcome.
func (h *sinkHealth) atOnce() int {
	if h.failures > 0 {
		return 1
	}
	return SinkAtOnce
}

// Retried reports whether a delivery has failed before: an earlier copy may have arrived. The delivery must be waiting
// or under way.
func (s *Schedule) Retried(d Delivery) bool { return s.waiting[d].failures > 0 }

// Ended records how the attempt at a delivery that Next has returned ended, and returns the delivery's next step.
// chance is uniform in [0, 1).
func (s *Schedule) Ended(d Delivery, o Outcome, now time.Time, chance float64) Step {
	w, h := s.waiting[d], s.health(d.Sink)
	w.flying = false
	h.flying--
	s.flying--
	switch o.End {
	case Delivered:
		h.failures, h.next, h.why = 0, time.Time{}, ""
		w.next = now.Add(settleTime) // unless the acknowledgement is lost, it is gone by then
		return Acknowledge
	case Broken:
		return Wait
	case Refused:
		w.next = now.Add(settleTime)
		return GiveUp
	}
	h.failures++
	w.failures++
	h.why = o.Why
	w.next = now.Add(max(spread(grown(s.pace.Backoff, backoffMost, w.failures), chance), o.After))
	h.next = now.Add(max(spread(grown(s.pace.Pause, pauseMost, h.failures), chance), o.After))
	if !now.Before(w.until) {
		return GiveUp
	}
	return Wait
}

// Renew forgets the failures of a sink: another one has its name now.
func (s *Schedule) Renew(sink string) {
	h := s.health(sink)
	h.failures, h.next, h.why = 0, time.Time{}, ""
	for d, w := range s.waiting {
		if d.Sink == sink && w.failures > 0 {
			w.failures, w.next = 0, time.Time{}
		}
	}
}

// grown returns the wait after so many failures, at least one: first, doubled with each further failure, and most at
// most.
func grown(first, most time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 30), most)
}

// spread returns d plus or minus half of it, so that deliveries that failed together are not retried together.
func spread(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(float64(d)*chance)
}

// Overdue returns the deliveries that have run out of time while their sink accepts nothing: they are given up without
// an attempt.
func (s *Schedule) Overdue(now time.Time, ready func(sink string) bool) (all []Delivery) {
	for d, w := range s.waiting {
		if !w.flying && !w.gone && !w.next.After(now) && !now.Before(w.until) && !ready(d.Sink) {
			w.next = now.Add(settleTime) // it is gone by then
			all = append(all, d)
		}
	}
	return all
}

// Failing lists the sinks with a failed last attempt, and the reason.
func (s *Schedule) Failing() map[string]string {
	failing := make(map[string]string)
	for name, h := range s.sinks {
		if h.failures > 0 {
			failing[name] = h.why
		}
	}
	return failing
}
