package node

import (
	"sync"
	"time"
)

// writesFor is how long a span of writeTimes lasts: there are always one to two of them to look at.
const writesFor = 30 * time.Second

// writeTimes remembers how long the writes of the log took in the last 30 to 60 seconds. It may be used concurrently.
type writeTimes struct {
	now func() time.Time

	mu           sync.Mutex
	begun        time.Time // of the current span
	current, old writeSpan
}

// writeSpan is the writes of a span.
type writeSpan struct {
	count        int
	sum, slowest time.Duration
}

func (w *writeTimes) add(took time.Duration) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	w.current.count++
	w.current.sum += took
	w.current.slowest = max(w.current.slowest, took)
}

// lately returns the mean and the slowest write; 0: there was none.
func (w *writeTimes) lately() (mean, slowest time.Duration) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if count := w.current.count + w.old.count; count > 0 {
		mean = (w.current.sum + w.old.sum) / time.Duration(count)
	}
	return mean, max(w.current.slowest, w.old.slowest)
}

// turn begins a new span when the current one is over. w.mu is held. The clock is read before: in the simulation a node
// that is paused stands in it.
func (w *writeTimes) turn(now time.Time) {
	switch length := now.Sub(w.begun); {
	case length < writesFor:
		return
	case length < 2*writesFor:
		w.old = w.current
	default:
		w.old = writeSpan{}
	}
	w.current, w.begun = writeSpan{}, now
}
