package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// events counts the fates of events. A cluster has at most 64 sinks.
type events struct {
	delivered, failed, lost, spikes, skipped *prometheus.CounterVec
	failing, waiting, dead                   *prometheus.GaugeVec

	mu   sync.Mutex
	ever map[uint32]uint64 // by shard: events that were ever lost, as known here; guarded by mu
}

func (f factory) events() *events {
	return &events{
		delivered: f.counter("events_delivered_total", "Events that a sink has taken.", "sink"),
		failed:    f.counter("event_tries_failed_total", "Tries to send an event that a sink has not taken.", "sink"),
		waiting: f.gauge("events_waiting",
			"Events that wait for their sinks, on shards that this node owns.", "shard"),
		dead: f.gauge("events_dead", "Dead letters that are kept, on shards that this node owns.", "shard"),
		lost: f.counter("events_lost_total",
			"Events that were dropped before all of their sinks had them.", "shard"),
		spikes:  f.counter("spikes_total", "Keys that were denied far more often than before.", "policy"),
		skipped: f.counter("bills_skipped_total", "Bills that a sink cannot be sent.", "sink"),
		failing: f.gauge("sink_failing", "1: the sink did not take what this node has sent it last.", "sink"),
		ever:    make(map[uint32]uint64),
	}
}

// EventTried counts an attempt to send an event to a sink.
func (m *Metrics) EventTried(sink string, delivered bool) {
	if delivered {
		m.events.delivered.WithLabelValues(sink).Inc()
	} else {
		m.events.failed.WithLabelValues(sink).Inc()
	}
}

// Spike counts a key of a policy that is denied far more often than before.
func (m *Metrics) Spike(policy string) { m.events.spikes.WithLabelValues(policy).Inc() }

// BillSkipped counts a bill that cannot be sent to a sink.
func (m *Metrics) BillSkipped(sink string) { m.events.skipped.WithLabelValues(sink).Inc() }

// SinkFailing sets whether the last delivery to a sink failed. A sink that does not fail has no series.
func (m *Metrics) SinkFailing(sink string, fails bool) {
	if fails {
		m.events.failing.WithLabelValues(sink).Set(1)
	} else {
		m.events.failing.DeleteLabelValues(sink)
	}
}

// EventsWaiting sets how many events of a shard wait, and how many dead letters are kept.
func (m *Metrics) EventsWaiting(shard uint32, waiting, dead uint64) {
	m.events.waiting.WithLabelValues(shardLabel(shard)).Set(float64(waiting))
	m.events.dead.WithLabelValues(shardLabel(shard)).Set(float64(dead))
}

// EventsLost sets how many events of a shard were ever lost. A smaller number than before changes nothing: the copy of
// the shard that it comes from may be behind.
func (m *Metrics) EventsLost(shard uint32, ever uint64) {
	e := m.events
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.ever[shard]
	e.ever[shard] = max(ever, was)
	e.lost.WithLabelValues(shardLabel(shard)).Add(float64(max(ever, was) - was))
}
