package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// canary has the series about the keys by which nodes check the counting.
type canary struct {
	heard    *children[uint32, prometheus.Gauge]
	violated *children[violation, prometheus.Counter]
}

// violation is an answer that cannot be: kind is lost or doubled.
type violation struct {
	shard uint32
	kind  string
}

func (f factory) canary() canary {
	heard := f.gauge("canary_timestamp_seconds", "When the shard last answered this node's canary.", "shard")
	violated := f.counter("canary_violations_total", "Counts of the canary that were lost, or taken twice.", "shard", "kind")
	return canary{
		heard: newChildren(func(shard uint32) prometheus.Gauge { return heard.WithLabelValues(number(shard)) }),
		violated: newChildren(func(v violation) prometheus.Counter {
			return violated.WithLabelValues(number(v.shard), v.kind)
		}),
	}
}

// CanaryHeard notes that a shard has answered this node's canary.
func (m *Metrics) CanaryHeard(shard uint32, at time.Time) {
	m.canary.heard.of(shard).Set(float64(at.UnixMilli()) / 1000)
	for _, kind := range []string{"lost", "doubled"} { // 0 says that somebody looks
		m.canary.violated.of(violation{shard, kind})
	}
}

// CanaryViolated counts an answer to the canary that cannot be: kind is lost or doubled.
func (m *Metrics) CanaryViolated(shard uint32, kind string) {
	m.canary.violated.of(violation{shard, kind}).Inc()
}
