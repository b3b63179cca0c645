package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// schedule hands out the calls of a run. next may be called concurrently.
type schedule interface {
	// next waits until a caller may send. It returns how many checks to send, and the instant from which their latency
	// counts. ok is false when the run is over.
	next(ctx context.Context) (checks int, from time.Time, ok bool)
}

// budget hands out checks until their number or the time is used up.
type budget struct {
	batch    uint64
	count    uint64        // 0 if only the deadline ends it
	deadline time.Time     // zero if only the count ends it
	taken    atomic.Uint64 // checks handed out; goes above count when it is used up
}

func newBudget(p Plan, start time.Time) *budget {
	b := &budget{batch: uint64(p.Batch), count: p.Count}
	if p.Duration > 0 {
		b.deadline = start.Add(p.Duration)
	}
	return b
}

// take returns 0 when the budget is spent.
func (b *budget) take(now time.Time) int {
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		return 0
	}
	if b.count == 0 {
		return int(b.batch)
	}
	before := b.taken.Add(b.batch) - b.batch
	if before >= b.count {
		return 0
	}
	return int(min(b.batch, b.count-before))
}

// closedLoop lets a caller send as soon as it asks.
type closedLoop struct{ *budget }

func (c closedLoop) next(ctx context.Context) (int, time.Time, bool) {
	now := time.Now()
	if ctx.Err() != nil {
		return 0, now, false
	}
	checks := c.take(now)
	return checks, now, checks > 0
}

// openLoop sends at fixed instants. One goroutine (pace) keeps the time; callers wait for its tickets.
type openLoop struct {
	*budget
	interval time.Duration
	tickets  chan ticket
	unsent   atomic.Uint64 // calls that were due, but found no free caller before the end
}

type ticket struct {
	due    time.Time // from then on its latency counts, however late it is sent
	checks int
}

// ticketsMax is how many calls may be due and not yet sent before the pacer itself waits. They keep their due times.
const ticketsMax = 1 << 16

func newOpenLoop(b *budget, rate float64) *openLoop {
	interval := time.Duration(float64(time.Second) / rate)
	return &openLoop{budget: b, interval: max(interval, 1), tickets: make(chan ticket, ticketsMax)}
}

// pace issues the tickets, and closes the channel at the end of the run.
func (o *openLoop) pace(ctx context.Context, start time.Time) {
	defer close(o.tickets)
	for n := int64(0); ; n++ {
		due := start.Add(time.Duration(n) * o.interval)
		checks := o.take(due)
		if checks == 0 || ctx.Err() != nil {
			return
		}
		sleepUntil(due)
		select {
		case o.tickets <- ticket{due, checks}:
		case <-ctx.Done():
			return
		}
	}
}

func (o *openLoop) next(ctx context.Context) (int, time.Time, bool) {
	for t := range o.tickets {
		if ctx.Err() == nil && o.inTime() {
			return t.checks, t.due, true
		}
		o.unsent.Add(1)
	}
	return 0, time.Time{}, false
}

// backlogGrace is how long after the deadline overdue calls may still be sent.
const backlogGrace = 250 * time.Millisecond

// inTime reports whether a call may still be sent: an overloaded run ends when its time is over, not when its backlog
// is done.
func (o *openLoop) inTime() bool {
	return o.deadline.IsZero() || time.Since(o.deadline) < backlogGrace
}
