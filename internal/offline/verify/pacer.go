package verify

import (
	"sync"
	"time"
)

// pacer schedules the starts of operations.
type pacer struct {
	mu   sync.Mutex
	rate float64   // per second; 0 disables waiting
	due  time.Time // when the newest operation is to begin
}

// catchUp is how much of a stall is made up for by a faster rate afterwards.
const catchUp = 50 * time.Millisecond

// next returns how long to wait before the next operation.
func (p *pacer) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 0
	}
	if earliest := now.Add(-catchUp); p.due.Before(earliest) {
		p.due = earliest
	}
	p.due = p.due.Add(time.Duration(float64(time.Second) / p.rate))
	return p.due.Sub(now)
}

// unbind lets operations begin as soon as their clients can. Those that wait now still do.
func (p *pacer) unbind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = 0
}
