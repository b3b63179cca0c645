package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/top"
)

// Periods end on the clock's tens of seconds, have what was answered in them, and are dropped after ten minutes.
func TestTrafficIsKeptInPeriods(t *testing.T) {
	m, at := New(), time.Unix(1000, 0)
	// before the first period
	m.Ended(&decisions.Event{Counted: []decisions.Count{{Name: "p", Kind: "allowed", N: 100}}})
	m.Traffic.Sample(at)
	m.Ended(&decisions.Event{Method: "Check", Code: "ok", Took: 3 * time.Millisecond, Counted: []decisions.Count{
		{Name: "p", Kind: "allowed", N: 3}, {Name: "q", Kind: "reserved", N: 1}, {Name: "p", Kind: "locked_out", N: 1},
		{Name: "p", Kind: "replayed", N: 1}}})
	m.Ended(&decisions.Event{System: "redis", Took: time.Minute})
	m.Traffic.Sample(at.Add(9 * time.Second))
	if kept := m.Traffic.Periods(); len(kept) != 0 {
		t.Fatalf("before the end of the first period there are %+v", kept)
	}
	m.Traffic.Sample(at.Add(10 * time.Second))
	m.Ended(&decisions.Event{Counted: []decisions.Count{{Name: "p", Kind: "denied", N: 1}}})
	m.Traffic.Sample(at.Add(21 * time.Second))
	kept := m.Traffic.Periods()
	if len(kept) != 2 || kept[0].Start != 1000 || kept[0].Admitted != 4 || kept[0].Denied != 1 ||
		kept[1].Start != 1010 || kept[1].Denied != 1 || kept[1].Admitted != 0 {
		t.Fatalf("kept: %+v", kept)
	}
	if calls := kept[0].Took; calls[6] != 1 || calls[top.TookBuckets] != 1 {
		t.Errorf("calls by duration: %v", calls)
	}
	for i := range 100 {
		m.Traffic.Sample(at.Add(time.Duration(30+10*i) * time.Second))
	}
	if kept = m.Traffic.Periods(); len(kept) != top.TrafficKept || kept[0].Start != 1000+30+10*99-10*top.TrafficKept {
		t.Errorf("%d periods are kept, since %d", len(kept), kept[0].Start)
	}
}

// Dashboards and alerts name the bounds of the series.
func TestDurationsHaveTheBoundsOfTheSeries(t *testing.T) {
	if want := prometheus.ExponentialBuckets(50e-6, 2, 18); !slices.Equal(durationBuckets, want) {
		t.Errorf("the bounds are %v, want %v", durationBuckets, want)
	}
}
