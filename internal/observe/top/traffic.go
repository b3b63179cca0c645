package top

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Traffic is the answers of a node, or of all nodes, in TrafficSeconds. Nodes send it to each other as JSON.
type Traffic struct {
	Start            int64  // seconds since the Unix epoch, a multiple of TrafficSeconds
	Admitted, Denied uint64 // decisions, one for each entry of a request
	// Took has the answered calls by duration: those of TookWithin, and the slower ones.
	Took []uint64 `json:",omitempty"`
}

// How long one Traffic lasts, and how many a node keeps: ten minutes.
const (
	TrafficSeconds = 10
	TrafficKept    = 60
)

// TookBuckets is the number of durations that TookWithin knows.
const TookBuckets = 18

// TookWithin is the longest duration of a call in a place of Traffic.Took: from 50 us, below one fsync of a fast disk,
// to 6.5 s, beyond the default deadline of a call.
func TookWithin(i int) time.Duration { return 50 * time.Microsecond << i }

// TookPlace returns the place of a duration in Traffic.Took.
func TookPlace(took time.Duration) (i int) {
	for i < TookBuckets && took > TookWithin(i) {
		i++
	}
	return i
}

// SlowestBut returns a duration that all calls but one in n have kept, or 0 if there were no calls. It is the bound of
// a place of Took, so it may be up to twice too long; for calls beyond the last bound it is that bound.
func (t *Traffic) SlowestBut(n uint64) time.Duration {
	var all uint64
	for _, calls := range t.Took {
		all += calls
	}
	within := uint64(0)
	for i, calls := range t.Took {
		if within += calls; within > 0 && within >= all-all/n {
			return TookWithin(min(i, TookBuckets-1))
		}
	}
	return 0
}

// joinTraffic adds up what several nodes answered at the same time.
func joinTraffic(nodes []Counts) []Traffic {
	joined := make(map[int64]Traffic) // by Start
	for i := range nodes {
		for j := range nodes[i].Traffic {
			more := &nodes[i].Traffic[j]
			joined[more.Start] = joined[more.Start].plus(more)
		}
	}
	return slices.SortedFunc(maps.Values(joined), func(a, b Traffic) int { return cmp.Compare(a.Start, b.Start) })
}

// plus adds what another node answered in the same time. It changes neither: Took is new.
func (t Traffic) plus(more *Traffic) Traffic {
	t.Start = more.Start
	t.Admitted += more.Admitted
	t.Denied += more.Denied
	took := make([]uint64, max(len(t.Took), len(more.Took)))
	for _, calls := range [][]uint64{t.Took, more.Took} {
		for i := range calls {
			took[i] += calls[i]
		}
	}
	t.Took = took
	return t
}
