package metrics

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// The most names that the series of denials have. Namespaces come from callers, and a limit of every policy may deny in each.
const (
	denialNamespaces = 200
	denialLimits     = 200
	denialSeries     = 2000
	otherName        = "other" // stands for all names beyond
)

// denial names the limit that denied.
type denial struct{ namespace, policy, limit string }

// denials counts denials by namespace and limit. The names that come first get series of their own.
type denials struct {
	vec   *prometheus.CounterVec
	known atomic.Pointer[map[denial]prometheus.Counter] // replaced, never changed

	grow       sync.Mutex // held while names are added
	namespaces map[string]bool
	limits     map[denial]bool // without a namespace
}

func newDenials(vec *prometheus.CounterVec) *denials {
	d := &denials{vec: vec, namespaces: make(map[string]bool), limits: make(map[denial]bool)}
	d.known.Store(&map[denial]prometheus.Counter{})
	return d
}

func (d *denials) of(by denial) prometheus.Counter {
	if child, ok := (*d.known.Load())[by]; ok {
		return child
	}
	return d.add(by)
}

// add makes a series, or returns that of others.
func (d *denials) add(by denial) prometheus.Counter {
	d.grow.Lock()
	defer d.grow.Unlock()
	known := *d.known.Load()
	limit := denial{policy: by.policy, limit: by.limit}
	if !d.namespaces[by.namespace] && len(d.namespaces) >= denialNamespaces {
		by.namespace = otherName
	}
	if !d.limits[limit] && len(d.limits) >= denialLimits {
		by.policy, by.limit = otherName, otherName
	}
	if _, ok := known[by]; !ok && len(known) >= denialSeries {
		by = denial{otherName, otherName, otherName}
	}
	if child, ok := known[by]; ok {
		return child
	}
	by = denial{strings.Clone(by.namespace), strings.Clone(by.policy), strings.Clone(by.limit)} // not a part of a request's memory
	d.namespaces[by.namespace] = true
	d.limits[denial{policy: by.policy, limit: by.limit}] = true
	grown := make(map[denial]prometheus.Counter, len(known)+1)
	for name, child := range known {
		grown[name] = child
	}
	grown[by] = d.vec.WithLabelValues(by.namespace, by.policy, by.limit)
	d.known.Store(&grown)
	return grown[by]
}

// Denied implements decisions.DenialCounter.
func (m *Metrics) Denied(namespace, policy, limit string) {
	m.denials.of(denial{namespace, policy, limit}).Inc()
}
