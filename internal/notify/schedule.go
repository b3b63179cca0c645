package notify

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rules of tries.
const (
	// GiveUpAfter is how long an event is tried.
	GiveUpAfter = 3 * 24 * time.Hour
	// GiveUpStripe is the same for Stripe: it knows an identifier for a day, so a later copy could count twice.
	GiveUpStripe = 20 * time.Hour

	// latest is how long one is tried that is older than that when it is seen first: a dead letter that was replayed.
	latest = time.Hour

	// settleTime is how long the acknowledgement of a delivery is awaited before it is tried again.
	settleTime = 5 * time.Second

	backoffFirst = 5 * time.Second // before the second try of an event, more or less
	backoffMost  = 4 * time.Hour
	pauseFirst   = time.Second // of a sink that has failed
	pauseMost    = time.Minute

	// SinkAtOnce and AtOnce bound the tries under way, to one sink and in all.
	SinkAtOnce = 4
	AtOnce     = 32
)

// Delivery names one event on its way to one sink.
type Delivery struct{ Sink, Event string }

// Waiting is a Delivery with what decides when it is tried.
type Waiting struct {
	Delivery
	At    time.Time // of the event: the oldest is tried first
	Until time.Time // from then on a failure is its last
}

// Until says until when an event is tried that is seen first now. Its time begins with the event and not with the first try, so a new
// owner of its shard does not make it longer.
func Until(at, now time.Time, within time.Duration) time.Time {
	if until := at.Add(within); now.Before(until) {
		return until
	}
	return now.Add(latest)
}

// Step says what becomes of a delivery after a try.
type Step uint8

// Steps.
const (
	Wait        Step = iota // it is tried again later
	Acknowledge             // it is done
	GiveUp                  // it goes to the dead letters
)

// Schedule decides which delivery is tried when. A delivery that failed waits twice as long each time, 5 s at first and 4 hours
// at most, give or take a half. A sink that failed gets one try at a time, a minute apart at most, until it takes something: so
// ten thousand events that wait for a sink that is down are not ten thousand tries. One owner; no method blocks.
type Schedule struct {
	pace    Pace
	waiting map[Delivery]*waiting
	sinks   map[string]*health
	flying  int
}

type waiting struct {
	at       time.Time
	until    time.Time
	next     time.Time // not before
	failures int
	flying   bool
	known    bool // in the last Sync, while that goes on
	gone     bool // not in the last Sync, but under way then
}

// health is how a sink does.
type health struct {
	flying   int
	failures int       // in a row
	next     time.Time // not before, whatever the delivery
	why      string    // it failed last; "": it did not
}

// Pace is how long the first waits are. The zero value stands for those that Schedule tells; tests are faster.
type Pace struct{ Backoff, Pause time.Duration }

// NewSchedule makes an empty schedule.
func NewSchedule(p Pace) *Schedule {
	p = Pace{cmp.Or(p.Backoff, backoffFirst), cmp.Or(p.Pause, pauseFirst)}
	return &Schedule{pace: p, waiting: make(map[Delivery]*waiting), sinks: make(map[string]*health)}
}

// Sync takes what waits now. What waits no longer is forgotten; if it is under way, it is not tried again.
func (s *Schedule) Sync(all []Waiting) {
	for _, w := range all {
		if known := s.waiting[w.Delivery]; known != nil {
			known.known, known.gone = true, false
			continue
		}
		s.waiting[w.Delivery] = &waiting{at: w.At, until: w.Until, known: true}
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
	maps.DeleteFunc(s.sinks, func(name string, h *health) bool { return h.flying == 0 && !used[name] })
}

// Next returns the deliveries to try now, the oldest events first, and notes them as under way. Each one ends with Ended. ready
// says whether a sink takes any.
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

// due lists the deliveries whose own time has come, the oldest events first.
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

func (s *Schedule) health(sink string) *health {
	h := s.sinks[sink]
	if h == nil {
		h = &health{}
		s.sinks[sink] = h
	}
	return h
}

// atOnce is one after a failure: the others wait for what becomes of it.
func (h *health) atOnce() int {
	if h.failures > 0 {
		return 1
	}
	return SinkAtOnce
}

// Retried reports whether a delivery has failed before: what was tried may have arrived.
func (s *Schedule) Retried(d Delivery) bool { return s.waiting[d].failures > 0 }

// Ended notes how a try ended, and says what becomes of the delivery. chance is uniform in [0, 1).
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

// grown doubles with each failure.
func grown(first, most time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 30), most)
}

// spread is d, give or take a half: what failed together is not tried together.
func spread(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(float64(d)*chance)
}

// Overdue returns the deliveries whose time is over while their sink takes nothing: they are given up without a try.
func (s *Schedule) Overdue(now time.Time, ready func(sink string) bool) (all []Delivery) {
	for d, w := range s.waiting {
		if !w.flying && !w.gone && !w.next.After(now) && !now.Before(w.until) && !ready(d.Sink) {
			w.next = now.Add(settleTime) // it is gone by then
			all = append(all, d)
		}
	}
	return all
}

// Failing lists the sinks that did not take the last thing they were sent, with how often in a row and why.
func (s *Schedule) Failing() map[string]string {
	failing := make(map[string]string)
	for name, h := range s.sinks {
		if h.failures > 0 {
			failing[name] = h.why
		}
	}
	return failing
}
