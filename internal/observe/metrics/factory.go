package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-io/stint/internal/observe/top"
)

// factory makes families of series and registers them. It panics if a name is taken.
type factory struct{ registry *prometheus.Registry }

// durationBuckets are those of top.Traffic, in seconds.
var durationBuckets = func() (bounds []float64) {
	for i := range top.TookBuckets {
		bounds = append(bounds, float64(top.TookWithin(i))/float64(time.Second))
	}
	return bounds
}()

// Sizes from 1 to 262,144, the largest size of a log entry.
var sizeBuckets = prometheus.ExponentialBuckets(1, 4, 10)

func (f factory) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stint", Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	return v
}

func (f factory) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "stint", Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	return v
}

func (f factory) histogram(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "stint", Name: name, Help: help,
		Buckets:                        buckets,
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160,
	}, labels)
	f.registry.MustRegister(v)
	return v
}
