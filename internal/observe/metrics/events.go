package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// events counts what becomes of events. A cluster has at most 64 sinks.
type events struct {
	delivered, failed *children[string, prometheus.Counter]
	failing           *prometheus.GaugeVec
	waiting, dead     *children[uint32, prometheus.Gauge]
	lost              *children[uint32, *sumOf]
	spikes            *children[string, prometheus.Counter]
	skipped           *children[string, prometheus.Counter]
}

// sumOf is a counter of something whose sum is known elsewhere.
type sumOf struct {
	counter prometheus.Counter
	mu      sync.Mutex
	sum     uint64 // guarded by mu
}

func (f factory) events() events {
	delivered := f.counter("events_delivered_total", "Events that a sink has taken.", "sink")
	failed := f.counter("event_tries_failed_total", "Tries to send an event that a sink has not taken.", "sink")
	waiting := f.gauge("events_waiting", "Events that wait for their sinks, on shards that this node owns.", "shard")
	dead := f.gauge("events_dead", "Dead letters that are kept, on shards that this node owns.", "shard")
	lost := f.counter("events_lost_total", "Events that were dropped before all of their sinks had them.", "shard")
	spikes := f.counter("spikes_total", "Keys that were denied far more often than before.", "policy")
	skipped := f.counter("bills_skipped_total", "Bills that a sink cannot be sent.", "sink")
	return events{
		skipped:   newChildren(func(sink string) prometheus.Counter { return skipped.WithLabelValues(sink) }),
		spikes:    newChildren(func(policy string) prometheus.Counter { return spikes.WithLabelValues(policy) }),
		delivered: newChildren(func(sink string) prometheus.Counter { return delivered.WithLabelValues(sink) }),
		failed:    newChildren(func(sink string) prometheus.Counter { return failed.WithLabelValues(sink) }),
		failing:   f.gauge("sink_failing", "1: the sink did not take what this node has sent it last.", "sink"),
		waiting:   newChildren(func(shard uint32) prometheus.Gauge { return waiting.WithLabelValues(number(shard)) }),
		dead:      newChildren(func(shard uint32) prometheus.Gauge { return dead.WithLabelValues(number(shard)) }),
		lost:      newChildren(func(shard uint32) *sumOf { return &sumOf{counter: lost.WithLabelValues(number(shard))} }),
	}
}

// EventTried counts a try to send an event to a sink.
func (m *Metrics) EventTried(sink string, delivered bool) {
	if delivered {
		m.events.delivered.of(sink).Inc()
	} else {
		m.events.failed.of(sink).Inc()
	}
}

// Spike counts a key of a policy that is denied far more often than before.
func (m *Metrics) Spike(policy string) { m.events.spikes.of(policy).Inc() }

// BillSkipped counts a bill that a sink cannot be sent.
func (m *Metrics) BillSkipped(sink string) { m.events.skipped.of(sink).Inc() }

// SinkFailing says whether a sink did not take what it was sent last. One that does not fail has no series.
func (m *Metrics) SinkFailing(sink string, fails bool) {
	if fails {
		m.events.failing.WithLabelValues(sink).Set(1)
	} else {
		m.events.failing.DeleteLabelValues(sink)
	}
}

// EventsWaiting sets how many events of a shard wait, and how many dead letters are kept.
func (m *Metrics) EventsWaiting(shard uint32, waiting, dead uint64) {
	m.events.waiting.of(shard).Set(float64(waiting))
	m.events.dead.of(shard).Set(float64(dead))
}

// EventsLost says how many events of a shard were lost ever.
func (m *Metrics) EventsLost(shard uint32, ever uint64) {
	s := m.events.lost.of(shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ever > s.sum {
		s.counter.Add(float64(ever - s.sum))
		s.sum = ever
	}
}
