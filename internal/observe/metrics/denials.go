package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds on the names in the series of denials. Namespaces come from callers, and a limit of every policy may deny in
// each.
const (
	denialNamespaces = 200
	denialLimits     = 200
	denialSeries     = 2000
	otherName        = "other" // stands for all names beyond
)

// denial names the limit that denied.
type denial struct{ namespace, policy, limit string }

// denials counts denials by namespace and limit. The first names get series of their own.
type denials struct {
	vec *prometheus.CounterVec

	mu         sync.RWMutex                  // guards the fields below
	known      map[denial]prometheus.Counter // by the names of the series, so not by those that became "other"
	namespaces map[string]bool               // that have series of their own, and "other"
	limits     map[denial]bool               // likewise, without a namespace
}

func newDenials(vec *prometheus.CounterVec) *denials {
	return &denials{vec: vec, known: make(map[denial]prometheus.Counter), namespaces: make(map[string]bool),
		limits: make(map[denial]bool)}
}

// of returns the counter of a denial. It takes the exclusive lock for new names, and for those counted as "other".
func (d *denials) of(by denial) prometheus.Counter {
	d.mu.RLock()
	child, ok := d.known[by]
	d.mu.RUnlock()
	if !ok {
		child = d.add(by)
	}
	return child
}

// add makes a series, or returns an existing one.
func (d *denials) add(by denial) prometheus.Counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := denial{policy: by.policy, limit: by.limit}
	if !d.namespaces[by.namespace] && len(d.namespaces) >= denialNamespaces {
		by.namespace = otherName
	}
	if !d.limits[limit] && len(d.limits) >= denialLimits {
		by.policy, by.limit = otherName, otherName
	}
	if _, ok := d.known[by]; !ok && len(d.known) >= denialSeries {
		by = denial{otherName, otherName, otherName}
	}
	if child, ok := d.known[by]; ok {
		return child
	}
	// The names must not refer to a request's memory.
	by = denial{strings.Clone(by.namespace), strings.Clone(by.policy), strings.Clone(by.limit)}
	d.namespaces[by.namespace] = true
	d.limits[denial{policy: by.policy, limit: by.limit}] = true
	d.known[by] = d.vec.WithLabelValues(by.namespace, by.policy, by.limit)
	return d.known[by]
}

// Denied implements decisions.DenialCounter.
func (m *Metrics) Denied(namespace, policy, limit string) {
	m.denials.of(denial{namespace, policy, limit}).Inc()
}
