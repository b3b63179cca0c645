package metrics

import "github.com/prometheus/client_golang/prometheus"

// spans counts the spans of traces.
type spans struct {
	exported prometheus.Counter
	dropped  *children[string, prometheus.Counter]
}

func (f factory) spans() spans {
	dropped := f.counter("trace_spans_dropped_total", "Spans that did not reach the collector of traces.", "reason")
	return spans{
		exported: f.counter("trace_spans_exported_total", "Spans that the collector of traces has taken.").With(nil),
		dropped:  newChildren(func(reason string) prometheus.Counter { return dropped.WithLabelValues(reason) }),
	}
}

// SpansExported counts spans that the collector has taken.
func (m *Metrics) SpansExported(count int) { m.spans.exported.Add(float64(count)) }

// SpansDropped counts spans that did not reach it. reason is "queue", "collector" or "stop".
func (m *Metrics) SpansDropped(reason string, count int) {
	m.spans.dropped.of(reason).Add(float64(count))
}
