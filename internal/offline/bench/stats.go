package bench

import (
	"sync"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"
)

// stats collects the callers' results. It has a few stripes: callers seldom wait for each other, and a thousand of them
// do not need a thousand histograms.
type stats struct{ stripes []*stripe }

type stripe struct {
	mu      sync.Mutex
	latency *hdrhistogram.Histogram // microseconds, one value per call
	counts  counts
	errors  map[string]*ErrorCount
}

// counts are calls, and checks by fate.
type counts struct {
	calls uint64
	by    [Unknown + 1]uint64
}

func (c counts) checks() uint64 { return c.by[Allowed] + c.by[Denied] + c.by[Failed] + c.by[Unknown] }

const stripesMax = 16

func newStats(callers int) *stats {
	t := &stats{stripes: make([]*stripe, min(callers, stripesMax))}
	for i := range t.stripes {
		t.stripes[i] = &stripe{latency: newHistogram(), errors: map[string]*ErrorCount{}}
	}
	return t
}

// stripe returns the stripe that a caller writes to.
func (t *stats) stripe(caller int) *stripe { return t.stripes[caller%len(t.stripes)] }

// record notes one call: its latency, the fates of its checks, and its first failure, by whose code all checks of the
// call without a decision are counted. It may be nil only if there are none.
func (l *stripe) record(latency time.Duration, fates []Fate, failure *Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A value outside the histogram's range is recorded at its edge, so this cannot fail.
	_ = l.latency.RecordValue(min(max(latency.Microseconds(), 1), latencyMicrosMax))
	l.counts.calls++
	for _, f := range fates {
		l.counts.by[f]++
		if f == Allowed || f == Denied {
			continue
		}
		e := l.errors[failure.Code]
		if e == nil {
			e = &ErrorCount{Example: failure.Message}
			l.errors[failure.Code] = e
		}
		e.Checks++
	}
}

// counts sums up the stripes. It may be called while callers record.
func (t *stats) counts() counts {
	var sum counts
	for _, l := range t.stripes {
		l.mu.Lock()
		c := l.counts
		l.mu.Unlock()
		sum.calls += c.calls
		for fate, n := range c.by {
			sum.by[fate] += n
		}
	}
	return sum
}

// merged merges all stripes' latencies and errors, once no caller records.
func (t *stats) merged() (*hdrhistogram.Histogram, map[string]*ErrorCount) {
	latency, errors := newHistogram(), map[string]*ErrorCount{}
	for _, l := range t.stripes {
		latency.Merge(l.latency)
		for code, e := range l.errors {
			if errors[code] == nil {
				errors[code] = &ErrorCount{Example: e.Example}
			}
			errors[code].Checks += e.Checks
		}
	}
	return latency, errors
}
