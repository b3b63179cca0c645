package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stint-io/stint/internal/observe/top"
)

// Traffic keeps the node's answers of the last ten minutes, as differences of its counters. All methods may be called
// concurrently.
type Traffic struct {
	counters func(start int64) top.Traffic

	mu      sync.Mutex
	newest  top.Traffic // the counters when it began
	periods []top.Traffic
}

// Sample ends the period of top.TrafficSeconds that was under way, if it is over. Call it several times in a period.
func (t *Traffic) Sample(now time.Time) {
	start := now.Unix() / top.TrafficSeconds * top.TrafficSeconds
	t.mu.Lock()
	defer t.mu.Unlock()
	if start != t.newest.Start {
		t.end(t.counters(start))
	}
}

// Periods returns the ended periods, the oldest first.
func (t *Traffic) Periods() []top.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.periods)
}

// end begins a period at the given counters. t.mu must be held.
func (t *Traffic) end(counters top.Traffic) {
	if t.newest.Start != 0 {
		ended := top.Traffic{Start: t.newest.Start, Admitted: counters.Admitted - t.newest.Admitted, Denied: counters.Denied - t.newest.Denied,
			Took: make([]uint64, len(counters.Took))}
		for i := range ended.Took {
			ended.Took[i] = counters.Took[i] - t.newest.Took[i]
		}
		t.periods = append(t.periods[max(0, len(t.periods)+1-top.TrafficKept):], ended)
	}
	t.newest = counters
}

// answered reads the counters of decisions, and the durations of calls and of rounds of the Redis protocol.
func (m *Metrics) answered(start int64) top.Traffic {
	sum := top.Traffic{Start: start, Took: make([]uint64, top.TookBuckets+1)}
	for _, one := range series(m.decisions) {
		n := uint64(one.GetCounter().GetValue())
		for _, label := range one.Label {
			if label.GetName() != "outcome" {
				continue
			}
			switch label.GetValue() { // settlements and answers repeated for an id do not count
			case "denied", "denied_cached", "locked_out", "challenged":
				sum.Denied += n
			case "allowed", "counted", "reserved", "shadow_denied":
				sum.Admitted += n
			}
		}
	}
	for _, one := range append(series(m.requests), series(m.rounds.(prometheus.Collector))...) {
		h, before := one.GetHistogram(), uint64(0)
		for i, b := range h.GetBucket() {
			sum.Took[i] += b.GetCumulativeCount() - before
			before = b.GetCumulativeCount()
		}
		sum.Took[top.TookBuckets] += h.GetSampleCount() - before
	}
	return sum
}

// series reads all series of a family.
func series(family prometheus.Collector) (all []*dto.Metric) {
	found := make(chan prometheus.Metric)
	go func() { // ends with the loop below
		defer close(found)
		family.Collect(found)
	}()
	for m := range found {
		value := &dto.Metric{}
		if err := m.Write(value); err != nil {
			panic(err) // no series of ours has more than one value
		}
		all = append(all, value)
	}
	return all
}
