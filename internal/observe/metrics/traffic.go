package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/top"
)

// Traffic keeps the node's answers of the last ten minutes. All methods may be called concurrently.
type Traffic struct {
	// Since the last Sample that ended a period.
	admitted, denied atomic.Uint64
	took             [top.TookBuckets + 1]atomic.Uint64 // calls by top.TookPlace

	mu      sync.Mutex    // guards the fields below
	start   int64         // of the period under way, in Unix seconds; 0 before the first Sample
	periods []top.Traffic // ended, the oldest first; at most top.TrafficKept
}

// count counts the decisions and the duration of a call. Settlements and answers repeated for an id do not count.
func (t *Traffic) count(e *decisions.Event) {
	for _, c := range e.Counted {
		switch {
		case c.Denied():
			t.denied.Add(uint64(c.N))
		case slices.Contains(admissions, c.Kind):
			t.admitted.Add(uint64(c.N))
		}
	}
	t.took[top.TookPlace(e.Took)].Add(1)
}

// admissions are the outcomes of decisions that let a request pass.
var admissions = []string{"allowed", "allowed_leased", "counted", "reserved", "shadow_denied"}

// Sample ends the period of top.TrafficSeconds that was under way, if it is over. Call it several times in a period:
// answers between the end of a period and the next Sample count in it, too.
func (t *Traffic) Sample(now time.Time) {
	start := now.Unix() / top.TrafficSeconds * top.TrafficSeconds
	t.mu.Lock()
	defer t.mu.Unlock()
	if start == t.start {
		return
	}
	ended := top.Traffic{Start: t.start, Admitted: t.admitted.Swap(0), Denied: t.denied.Swap(0),
		Took: make([]uint64, len(t.took))}
	for i := range t.took {
		ended.Took[i] = t.took[i].Swap(0)
	}
	if t.start != 0 {
		t.periods = append(t.periods[max(0, len(t.periods)+1-top.TrafficKept):], ended)
	}
	t.start = start
}

// Periods returns the ended periods, the oldest first.
func (t *Traffic) Periods() []top.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.periods)
}
