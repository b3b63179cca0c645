package decisions

import (
	"slices"
	"sync"
)

// Ring is the most events that wait for one reader.
const Ring = 1024

// Reader holds events waiting to be read.
type Reader struct {
	bus    *Bus
	filter *Filter
	ready  chan struct{} // of capacity 1

	mu     sync.Mutex // guards the fields below
	events []*Record  // a ring once it is full
	oldest int        // place of the oldest event in a full ring, else 0
	missed uint64     // since the last Take
}

// Push adds an event. In a full ring it replaces the oldest one.
func (r *Reader) Push(e *Record) {
	r.mu.Lock()
	if len(r.events) < Ring {
		r.events = append(r.events, e)
	} else {
		r.events[r.oldest] = e
		r.oldest = (r.oldest + 1) % Ring
		r.missed++
	}
	r.mu.Unlock()
	r.Wake()
}

// Miss adds to the number of missed events. It does not wake the reader.
func (r *Reader) Miss(n uint64) {
	r.mu.Lock()
	r.missed += n
	r.mu.Unlock()
}

// Wake makes Ready yield.
func (r *Reader) Wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// Ready yields when there may be something to take.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Take returns the waiting events, oldest first, and how many were missed before them since the last time. It does not
// wait.
func (r *Reader) Take() (events []*Record, missed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, missed = r.events, r.missed
	if r.oldest > 0 {
		events = slices.Concat(r.events[r.oldest:], r.events[:r.oldest])
	}
	r.events, r.oldest, r.missed = nil, 0, 0
	return events, missed
}

// Close ends the reader: no further event comes from its bus.
func (r *Reader) Close() {
	r.bus.change(func(readers []*Reader) []*Reader {
		return slices.DeleteFunc(readers, func(one *Reader) bool { return one == r })
	})
}
