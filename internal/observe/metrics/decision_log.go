package metrics

import "github.com/prometheus/client_golang/prometheus"

// dropped counts the lines that a decision log has lost.
type dropped = children[string, prometheus.Counter]

func (f factory) decisionLog() *dropped {
	lines := f.counter("decision_log_dropped_total", "Lines of the decision log that were lost.", "reason")
	lines.WithLabelValues("full") // 0 is worth knowing
	lines.WithLabelValues("disk")
	return newChildren(func(reason string) prometheus.Counter { return lines.WithLabelValues(reason) })
}

// DecisionLogDropped counts lines of the decision log that were lost. reason is "full" or "disk".
func (m *Metrics) DecisionLogDropped(reason string, lines int) {
	m.decisionLog.of(reason).Add(float64(lines))
}
