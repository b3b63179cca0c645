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
	registry      *prometheus.Registry
	decisions     *children[decision, prometheus.Counter]
	requests      *children[call, prometheus.Observer]
	batches       *children[uint32, batch]
	commits       *children[uint32, prometheus.Observer]
	appends       prometheus.Observer
	appendEntries prometheus.Observer
	epochs        *children[uint32, prometheus.Gauge]
	drops         *children[drop, prometheus.Counter]
	keys          *children[uint32, prometheus.Gauge]
	recordBytes   *children[uint32, prometheus.Gauge]
	policyKeys    *children[policyShard, prometheus.Gauge]
	legs          *children[uint32, prometheus.Gauge]
	frozen        *children[uint32, prometheus.Counter]
	full          *children[uint32, prometheus.Counter]
	capped        *children[uint32, prometheus.Counter]
	commands      *children[call, prometheus.Counter]
	rounds        prometheus.Observer
	connections   prometheus.Gauge
	ports         ports
	events        events
	denials       *denials
	spans         spans
	canary        canary
	decisionLog   *dropped
	Traffic       *Traffic // what was answered lately
}

type decision struct{ policy, outcome string }

type call struct{ procedure, code string }

type drop struct {
	shard  uint32
	reason string
}

type policyShard struct {
	shard  uint32
	policy string
}

type batch struct{ requests, effects, bytes prometheus.Observer }

// New makes the metrics of one node, with their own registry.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families := factory{registry}
	decisions := families.counter("decisions_total", "Decisions, one for each entry.", "policy", "outcome")
	requests := families.durations("request_duration_seconds", "Calls answered.", "procedure", "code")
	commits := families.durations("commit_duration_seconds", "From proposal to installation.", "shard")
	epochs := families.gauge("epoch", "Raft index with which the shard's owner opened for business.", "shard")
	drops := families.counter("dropped_entries_total", "Entries of a deposed owner.", "shard", "reason")
	keys := families.gauge("keys", "Records kept.", "shard")
	bytes := families.gauge("record_bytes", "Memory that the records take.", "shard")
	policyKeys := families.gauge("policy_keys", "Keys of a policy with max_keys, in the namespace that has most.", "shard", "policy")
	capped := families.counter("keys_refused_total", "Times new keys were seen refused for max_keys, or for a share of the memory.", "shard")
	legs := families.gauge("legs_open", "Parts of operations on several shards that are charged here, and not ended.", "shard")
	frozen := families.counter("time_frozen_total", "Times shard time was seen standing still.", "shard")
	full := families.counter("memory_full_total", "Times requests were seen refused for lack of memory.", "shard")
	commands := families.counter("redis_commands_total", "Commands of the Redis protocol answered.", "command", "code")
	m := &Metrics{
		registry: registry,
		ports:    families.ports(), spans: families.spans(), canary: families.canary(), decisionLog: families.decisionLog(), events: families.events(),
		denials: newDenials(families.counter("denials_total", "Denials by limit; beyond 200 namespaces or limits: other.",
			"namespace", "policy", "limit")),
		commands: newChildren(func(c call) prometheus.Counter {
			return commands.WithLabelValues(c.procedure, c.code)
		}),
		rounds: families.durations("redis_round_duration_seconds",
			"Commands of one connection that were decided together, from parsing to the written replies.").With(nil),
		connections: families.gauge("redis_connections", "Connections that speak the Redis protocol.").With(nil),
		decisions: newChildren(func(d decision) prometheus.Counter {
			return decisions.WithLabelValues(d.policy, d.outcome)
		}),
		requests: newChildren(func(c call) prometheus.Observer {
			return requests.WithLabelValues(c.procedure, c.code)
		}),
		batches: newChildren(families.batches()),
		commits: newChildren(func(shard uint32) prometheus.Observer {
			return commits.WithLabelValues(number(shard))
		}),
		appends:       families.durations("log_append_duration_seconds", "Writes of the log, fsync included.").With(nil),
		appendEntries: families.sizes("log_append_entries", "Entries in one write of the log.").With(nil),
		epochs: newChildren(func(shard uint32) prometheus.Gauge {
			return epochs.WithLabelValues(number(shard))
		}),
		drops: newChildren(func(d drop) prometheus.Counter {
			return drops.WithLabelValues(number(d.shard), d.reason)
		}),
		keys: newChildren(func(shard uint32) prometheus.Gauge {
			return keys.WithLabelValues(number(shard))
		}),
		recordBytes: newChildren(func(shard uint32) prometheus.Gauge {
			return bytes.WithLabelValues(number(shard))
		}),
		policyKeys: newChildren(func(p policyShard) prometheus.Gauge {
			return policyKeys.WithLabelValues(number(p.shard), p.policy)
		}),
		capped: newChildren(func(shard uint32) prometheus.Counter {
			return capped.WithLabelValues(number(shard))
		}),
		legs: newChildren(func(shard uint32) prometheus.Gauge {
			return legs.WithLabelValues(number(shard))
		}),
		frozen: newChildren(func(shard uint32) prometheus.Counter { return frozen.WithLabelValues(number(shard)) }),
		full:   newChildren(func(shard uint32) prometheus.Counter { return full.WithLabelValues(number(shard)) }),
	}
	m.Traffic = &Traffic{counters: m.answered}
	return m
}

// Ended implements decisions.Listener: it counts a call and its decisions.
func (m *Metrics) Ended(e *decisions.Event) {
	for _, c := range e.Counted {
		m.decisions.of(decision{c.Name, c.Kind}).Add(float64(c.N))
	}
	if e.System != "redis" { // which knows no denials by limit
		e.CountDenials(m)
		observe(m.requests.of(call{e.Method, e.Code}), e.Took, e.TraceID)
		return
	}
	for _, c := range e.Commands {
		m.commands.of(call{c.Name, c.Kind}).Add(float64(c.N))
	}
	observe(m.rounds, e.Took, e.TraceID)
}

// Connections sets the number of connections that speak the Redis protocol.
func (m *Metrics) Connections(open int) { m.connections.Set(float64(open)) }

// observe adds a duration. The trace of a call that is followed becomes the exemplar of its bucket, which leads from a slow bucket
// to a call that was in it.
func observe(durations prometheus.Observer, took time.Duration, trace string) {
	if trace == "" {
		durations.Observe(took.Seconds())
		return
	}
	durations.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
}

// Batch observes requests that were decided together: their number, the keys that they changed, and the size of their log
// entry.
func (m *Metrics) Batch(shard uint32, requests, effects, bytes int) {
	b := m.batches.of(shard)
	b.requests.Observe(float64(requests))
	b.effects.Observe(float64(effects))
	b.bytes.Observe(float64(bytes))
}

// Commit observes the time from an entry's proposal to its installation.
func (m *Metrics) Commit(shard uint32, took time.Duration) {
	m.commits.of(shard).Observe(took.Seconds())
}

// Append observes one write of the log: its duration and number of entries.
func (m *Metrics) Append(took time.Duration, entries int) {
	m.appends.Observe(took.Seconds())
	m.appendEntries.Observe(float64(entries))
}

// Epoch sets the epoch of a shard; 0: it has ended.
func (m *Metrics) Epoch(shard uint32, epoch uint64) {
	m.epochs.of(shard).Set(float64(epoch))
}

// Drop counts a log entry that a shard's fence skipped. reason is "epoch", "term" or "seq".
func (m *Metrics) Drop(shard uint32, reason string) {
	m.drops.of(drop{shard, reason}).Inc()
}

// Keys sets the number of a shard's records and the memory that they take, in bytes.
func (m *Metrics) Keys(shard uint32, keys, bytes int) {
	m.keys.of(shard).Set(float64(keys))
	m.recordBytes.of(shard).Set(float64(bytes))
}

// PolicyKeys sets how many keys a shard counts under a policy with max_keys, in the namespace that has most.
func (m *Metrics) PolicyKeys(shard uint32, policy string, keys int) {
	m.policyKeys.of(policyShard{shard, policy}).Set(float64(keys))
}

// LegsOpen sets the number of parts of operations on several shards that a shard has charged and not ended.
func (m *Metrics) LegsOpen(shard uint32, legs int) {
	m.legs.of(shard).Set(float64(legs))
}

// Frozen counts an observation that a shard's time stands still.
func (m *Metrics) Frozen(shard uint32) {
	m.frozen.of(shard).Inc()
}

// Full counts an observation that a shard refuses requests for lack of memory.
func (m *Metrics) Full(shard uint32) {
	m.full.of(shard).Inc()
}

// Capped counts an observation that a shard refuses new keys of a policy or a namespace that has enough.
func (m *Metrics) Capped(shard uint32) {
	m.capped.of(shard).Inc()
}

// Handler answers scrapes: in OpenMetrics, which has exemplars, for who asks for that, and else in the text format. There are no
// samples of when a series was created (_created): they would be series of their own for every scraper that does not know them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// gather leaves out Go's go_memstats_alloc_bytes, which is go_memstats_heap_alloc_bytes: in OpenMetrics, where names have no "_total",
// it would be one family with the counter go_memstats_alloc_bytes_total, and strict readers refuse the page.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	all, err := m.registry.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return f.GetName() == "go_memstats_alloc_bytes" }), err
}

func number(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }

// Hop registers the counters of the requests that this node forwards to others and of their frames. The values of both
// functions only grow. Call it once, before the first scrape.
func (m *Metrics) Hop(requests, frames func() uint64) {
	families := factory{m.registry}
	families.counted("hop_requests_total", "Requests forwarded to the node that owns them.", requests)
	families.counted("hop_frames_total", "Frames in which requests were forwarded.", frames)
}

// Stopped registers the number of shards whose copy on this node decides nothing, because its records cannot be trusted.
// Call it once, before the first scrape.
func (m *Metrics) Stopped(shards func() int) {
	factory{m.registry}.measured("shards_stopped", "Shards of which the copy here decides nothing.", shards)
}

// Denials registers the number of denials that the node may repeat without asking again. Call it once, before the first
// scrape.
func (m *Metrics) Denials(kept func() int) {
	factory{m.registry}.measured("denials_kept", "Denials that may be repeated without asking again.", kept)
}
