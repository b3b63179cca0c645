package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/stint-io/stint/internal/observe/decisions"
)

// Metrics has the series of one node. Make it with New. All methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry
	Traffic  *Traffic // recent answers

	// Calls.
	decisions, commands *prometheus.CounterVec
	requests            *prometheus.HistogramVec
	rounds              prometheus.Observer
	denials             *denials

	// Shards.
	batchRequests, batchEffects, batchBytes, commits *prometheus.HistogramVec
	appends, appendEntries                           prometheus.Observer
	epochs                                           *prometheus.GaugeVec
	drops, frozen, full, capped                      *prometheus.CounterVec
	canaryHeard                                      *prometheus.GaugeVec
	canaryViolated                                   *prometheus.CounterVec
	slotsMoved                                       prometheus.Counter

	// Connections by port.
	redisConnections prometheus.Gauge
	connections      *prometheus.GaugeVec
	refused, cut     *prometheus.CounterVec

	// Output of the node.
	events              *events
	spansExported       prometheus.Counter
	spansDropped, lines *prometheus.CounterVec
}

// New makes the metrics of one node, with their own registry.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{registry}
	m := &Metrics{
		registry:  registry,
		Traffic:   &Traffic{},
		decisions: f.counter("decisions_total", "Decisions, one for each entry.", "policy", "outcome"),
		commands:  f.counter("redis_commands_total", "Commands of the Redis protocol answered.", "command", "code"),
		requests:  f.histogram(durationBuckets, "request_duration_seconds", "Calls answered.", "procedure", "code"),
		rounds: f.histogram(durationBuckets, "redis_round_duration_seconds",
			"Commands of one connection that were decided together, from parsing to the written replies.").With(nil),
		denials: newDenials(f.counter("denials_total", "Denials by limit; beyond 200 namespaces or limits: other.",
			"namespace", "policy", "limit")),

		batchRequests: f.histogram(sizeBuckets, "batch_requests", "Requests decided together.", "shard"),
		batchEffects:  f.histogram(sizeBuckets, "batch_effects", "Keys changed together.", "shard"),
		batchBytes:    f.histogram(sizeBuckets, "batch_bytes", "Size of a log entry.", "shard"),
		commits: f.histogram(durationBuckets,
			"commit_duration_seconds", "From proposal to installation.", "shard"),
		appends: f.histogram(durationBuckets,
			"log_append_duration_seconds", "Writes of the log, fsync included.").With(nil),
		appendEntries: f.histogram(sizeBuckets, "log_append_entries", "Entries in one write of the log.").With(nil),

		epochs: f.gauge("epoch", "Raft index with which the shard's owner opened for business.", "shard"),
		drops:  f.counter("dropped_entries_total", "Entries of a deposed owner.", "shard", "reason"),
		frozen: f.counter("time_frozen_total", "Times shard time was seen standing still.", "shard"),
		full:   f.counter("memory_full_total", "Times requests were seen refused for lack of memory.", "shard"),
		capped: f.counter("keys_refused_total",
			"Times new keys were seen refused for max_keys, or for a share of the memory.", "shard"),

		canaryHeard: f.gauge("canary_timestamp_seconds",
			"When the shard last answered this node's canary.", "shard"),
		canaryViolated: f.counter("canary_violations_total",
			"Counts of the canary that were lost, or taken twice.", "shard", "kind"),
		slotsMoved: f.counter("slots_moved_total", "Moves of slots that this node has ended.").With(nil),

		redisConnections: f.gauge("redis_connections", "Connections that speak the Redis protocol.").With(nil),
		connections:      f.gauge("connections", "Connections of a port of clients.", "port"),
		refused:          f.counter("connections_refused_total", "Connections that were not let in.", "port", "why"),
		cut: f.counter("connections_cut_total",
			"Connections that were idle and made room for others.", "port"),

		events: f.events(),
		spansExported: f.counter("trace_spans_exported_total",
			"Spans that the collector of traces has taken.").With(nil),
		spansDropped: f.counter("trace_spans_dropped_total",
			"Spans that did not reach the collector of traces.", "reason"),
		lines: f.counter("decision_log_dropped_total", "Lines of the decision log that were lost.", "reason"),
	}
	m.lines.WithLabelValues("full") // 0 is worth knowing
	m.lines.WithLabelValues("disk")
	return m
}

// Ended implements decisions.Listener: it counts a call and its decisions.
func (m *Metrics) Ended(e *decisions.Event) {
	m.Traffic.count(e)
	for _, c := range e.Counted {
		m.decisions.WithLabelValues(c.Name, c.Kind).Add(float64(c.N))
	}
	if e.System != "redis" { // it has no denials by limit
		e.CountDenials(m)
		observe(m.requests.WithLabelValues(e.Method, e.Code), e.Took, e.TraceID)
		return
	}
	for _, c := range e.Commands {
		m.commands.WithLabelValues(c.Name, c.Kind).Add(float64(c.N))
	}
	observe(m.rounds, e.Took, e.TraceID)
}

// observe adds a duration. The trace of a traced call becomes the exemplar of its bucket, which leads from a slow
// bucket to one of its calls.
func observe(durations prometheus.Observer, took time.Duration, trace string) {
	if trace == "" {
		durations.Observe(took.Seconds())
		return
	}
	durations.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
}

// Batch observes requests that were decided together: their number, the keys that they changed, and the size of their
// log entry.
func (m *Metrics) Batch(shard uint32, requests, effects, bytes int) {
	of := shardLabel(shard)
	m.batchRequests.WithLabelValues(of).Observe(float64(requests))
	m.batchEffects.WithLabelValues(of).Observe(float64(effects))
	m.batchBytes.WithLabelValues(of).Observe(float64(bytes))
}

// Commit observes the time from an entry's proposal to its installation.
func (m *Metrics) Commit(shard uint32, took time.Duration) {
	m.commits.WithLabelValues(shardLabel(shard)).Observe(took.Seconds())
}

// Append observes one write of the log: its duration and number of entries.
func (m *Metrics) Append(took time.Duration, entries int) {
	m.appends.Observe(took.Seconds())
	m.appendEntries.Observe(float64(entries))
}

// Epoch sets the epoch of a shard; 0 means that it has ended.
func (m *Metrics) Epoch(shard uint32, epoch uint64) {
	m.epochs.WithLabelValues(shardLabel(shard)).Set(float64(epoch))
}

// Watched begins what alerts count of a shard's trouble at 0: Prometheus sees no increase in the first value of a
// series.
func (m *Metrics) Watched(shard uint32) {
	for _, trouble := range []*prometheus.CounterVec{m.frozen, m.full, m.capped} {
		trouble.WithLabelValues(shardLabel(shard))
	}
}

// Drop counts a log entry that a shard's fence skipped. reason is "epoch", "term" or "seq".
func (m *Metrics) Drop(shard uint32, reason string) {
	m.drops.WithLabelValues(shardLabel(shard), reason).Inc()
}

// Frozen counts an observation that a shard's time stands still.
func (m *Metrics) Frozen(shard uint32) { m.frozen.WithLabelValues(shardLabel(shard)).Inc() }

// Full counts an observation that a shard refuses requests for lack of memory.
func (m *Metrics) Full(shard uint32) { m.full.WithLabelValues(shardLabel(shard)).Inc() }

// Capped counts an observation that a shard refuses new keys of a policy or a namespace that has enough.
func (m *Metrics) Capped(shard uint32) { m.capped.WithLabelValues(shardLabel(shard)).Inc() }

// CanaryHeard records that a shard has answered this node's canary.
func (m *Metrics) CanaryHeard(shard uint32, at time.Time) {
	m.canaryHeard.WithLabelValues(shardLabel(shard)).Set(float64(at.UnixMilli()) / 1000)
	for _, kind := range []string{"lost", "doubled"} { // 0 shows that the canary is running
		m.canaryViolated.WithLabelValues(shardLabel(shard), kind)
	}
}

// CanaryLeft records that no canary is to be answered by a shard, as it has no slots.
func (m *Metrics) CanaryLeft(shard uint32) { m.canaryHeard.DeleteLabelValues(shardLabel(shard)) }

// CanaryViolated counts an impossible answer to the canary: kind is lost or doubled.
func (m *Metrics) CanaryViolated(shard uint32, kind string) {
	m.canaryViolated.WithLabelValues(shardLabel(shard), kind).Inc()
}

// SlotMoved counts a move of a slot that this node has ended.
func (m *Metrics) SlotMoved() { m.slotsMoved.Inc() }

// Connections sets the number of connections that speak the Redis protocol.
func (m *Metrics) Connections(open int) { m.redisConnections.Set(float64(open)) }

// Connected sets the number of open connections of a port.
func (m *Metrics) Connected(port string, open int) {
	m.connections.WithLabelValues(port).Set(float64(open))
}

// Refused counts a refused connection of a port. why is "full", "address", "accept" or "unproven".
func (m *Metrics) Refused(port, why string) { m.refused.WithLabelValues(port, why).Inc() }

// Cut counts idle connections of a port that were closed to make room for others.
func (m *Metrics) Cut(port string, connections int) {
	m.cut.WithLabelValues(port).Add(float64(connections))
}

// SpansExported counts spans that the collector has taken.
func (m *Metrics) SpansExported(count int) { m.spansExported.Add(float64(count)) }

// SpansDropped counts spans that did not reach the collector. reason is "queue", "collector" or "stop".
func (m *Metrics) SpansDropped(reason string, count int) {
	m.spansDropped.WithLabelValues(reason).Add(float64(count))
}

// DecisionLogDropped counts lines of the decision log that were lost. reason is "full" or "disk".
func (m *Metrics) DecisionLogDropped(reason string, lines int) {
	m.lines.WithLabelValues(reason).Add(float64(lines))
}

// Handler answers scrapes: in OpenMetrics, which has exemplars, if the scraper asks for it, and else in the text
// format. There are no samples of when a series was created (_created): scrapers that do not know them would make
// series of them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// gather leaves out Go's go_memstats_alloc_bytes, which is go_memstats_heap_alloc_bytes: in OpenMetrics, where names
// have no "_total", it would be one family with the counter go_memstats_alloc_bytes_total, and strict readers refuse
// the page.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	all, err := m.registry.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return f.GetName() == "go_memstats_alloc_bytes"
	}), err
}

func shardLabel(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }
