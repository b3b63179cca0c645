package metrics

import "github.com/prometheus/client_golang/prometheus"

// ports counts the connections of every port.
type ports struct {
	open    *children[string, prometheus.Gauge]
	refused *children[refusal, prometheus.Counter]
	cut     *children[string, prometheus.Counter]
}

type refusal struct{ port, why string }

func (f factory) ports() ports {
	open := f.gauge("connections", "Connections of a port of clients.", "port")
	refused := f.counter("connections_refused_total", "Connections that were not let in.", "port", "why")
	cut := f.counter("connections_cut_total", "Connections that were idle and made room for others.", "port")
	return ports{
		open:    newChildren(func(port string) prometheus.Gauge { return open.WithLabelValues(port) }),
		refused: newChildren(func(r refusal) prometheus.Counter { return refused.WithLabelValues(r.port, r.why) }),
		cut:     newChildren(func(port string) prometheus.Counter { return cut.WithLabelValues(port) }),
	}
}

// Connected sets the number of open connections of a port.
func (m *Metrics) Connected(port string, open int) { m.ports.open.of(port).Set(float64(open)) }

// Refused counts a refused connection of a port. why is "full", "address", "accept" or "unproven".
func (m *Metrics) Refused(port, why string) { m.ports.refused.of(refusal{port, why}).Inc() }

// Cut counts idle connections of a port that were closed to make room for others.
func (m *Metrics) Cut(port string, connections int) { m.ports.cut.of(port).Add(float64(connections)) }
