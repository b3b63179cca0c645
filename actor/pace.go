package actor

import "time"

const (
	// holdMost bounds how long a batch waits for more requests.
	holdMost = 10 * time.Millisecond
	// holdLeast is what a wait must be worth: timers are not exact.
	holdLeast = 50 * time.Microsecond
	// paceSpan is how long the shortest commit is remembered: one span at least, two at most.
	paceSpan = 10 * time.Second
)

// pace says how long the next batch waits for the callers who were just answered. Most of them ask again at once, and
// the first one back would otherwise get an entry of its own, with all others waiting behind it. An entry costs about the
// same whatever it carries, so where many shards share a saturated node, waiting brings fewer and larger ones.
//
// A node is taken for saturated by what its commits take beyond the shortest one of late: that is time spent in queues for
// processors or disks. By that (excess), and holdMost at most, a batch waits before it is proposed instead of after. It
// goes as soon as as many requests queue as were answered and queued last time; a caller who is alone never waits. The
// less the node is loaded, the shorter is the wait; where nothing queues, there is none. The sequencer owns it.
type pace struct {
	others bool // other nodes write the entries too

	shortest [2]time.Duration // commit of this span and of the one before; 0: none
	since    time.Time        // when this span began

	target int           // requests that are worth waiting for
	until  time.Time     // as long as this
	bound  time.Duration // from the answers on; 0: no wait
}

// committed takes note of a batch that took so long. It answered so many requests, so many more queue, and recent is
// what commits take on average.
func (p *pace) committed(took, recent time.Duration, answered, queued int, wall time.Time) {
	switch {
	case wall.Sub(p.since) >= paceSpan:
		p.shortest, p.since = [2]time.Duration{took, p.shortest[0]}, wall
	case took < p.shortest[0] || p.shortest[0] == 0:
		p.shortest[0] = took
	}
	least := p.shortest[0]
	if p.shortest[1] > 0 {
		least = min(least, p.shortest[1])
	}
	p.target, p.bound = answered+queued, min(p.excess(recent, least), holdMost)
	if p.bound < holdLeast {
		p.bound = 0
	}
	p.until = wall.Add(p.bound)
}

// excess is what commits take too long. The factors are measured (docs/benchmarks.md, "How long a batch waits"): where two more
// nodes write an entry it costs four times as much as on a node alone, and waiting pays that much earlier.
func (p *pace) excess(recent, least time.Duration) time.Duration {
	if p.others {
		return 3 * (recent - least*6/5)
	}
	return recent - 2*least
}

// left is how much longer to wait for more than the requests that queue, of which none is due before a time: its zero
// value is never.
func (p *pace) left(queued int, due, wall time.Time) time.Duration {
	if p.bound == 0 || queued >= p.target {
		return 0
	}
	until := p.until
	if !due.IsZero() && due.Before(until) {
		until = due
	}
	return min(until.Sub(wall), p.bound) // a clock that was set back makes no wait longer
}

// end ends the wait, if there is one, until the next answers.
func (p *pace) end() { p.bound = 0 }
