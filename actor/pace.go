package actor

import "time"

const (
	// holdMost bounds how long a batch waits for more requests.
	holdMost = 10 * time.Millisecond
	// holdLeast is the shortest wait that is worthwhile: timers are not exact.
	holdLeast = 50 * time.Microsecond
	// targetMost is how many requests are enough for an entry: its own cost is then small beside theirs, and waiting
	// for more only idles processors (docs/benchmarks/batch-waits.md).
	targetMost = 128
	// paceSpan is how long the shortest commit is remembered: at least one span, at most two.
	paceSpan = 10 * time.Second
)

// pace decides how long the next batch waits for the callers that were just answered. Most of them ask again at once.
// Without a wait, the first one back gets an entry of its own, and all others wait behind it. An entry costs about the
// same regardless of its content, so where many shards share a saturated node, waiting leads to fewer and larger
// entries.
//
// A node counts as saturated by how much longer its commits take than the shortest recent one: that is time spent in
// queues for processors or disks. A batch waits that long (excess), at most holdMost, before it is proposed instead of
// after. It goes as soon as there are as many queued requests as were answered and queued last time, or targetMost; a
// single caller never waits. The less the node is loaded, the shorter the wait; if nothing queues, there is none. The
// sequencer owns it.
type pace struct {
	others bool // other nodes write the entries too
	most   int  // number of requests at which the wait ends: targetMost, or the bound of a batch

	shortest [2]time.Duration // shortest commit of this span and of the previous one; 0 if none
	since    time.Time        // when this span began

	target int           // number of requests worth waiting for
	until  time.Time     // end of the wait
	bound  time.Duration // length of the wait, counted from the answers; 0 disables it
}

// committed records a batch. It took the time took and answered that many requests while queued more wait; recent is
// the average time of a commit.
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
	p.target, p.bound = min(answered+queued, p.most), min(p.excess(recent, least), holdMost)
	if p.bound < holdLeast {
		p.bound = 0
	}
	p.until = wall.Add(p.bound)
}

// excess is the time by which commits take too long. The factors are measured (docs/benchmarks/batch-waits.md): where
// two more nodes write an entry, it costs four times as much as on a single node, so waiting pays that much earlier.
func (p *pace) excess(recent, least time.Duration) time.Duration {
	if p.others {
		return 3 * (recent - least*6/5)
	}
	return recent - 2*least
}

// left returns how much longer to wait for more than the queued requests. due is the earliest time at which one of them
// must go, or zero.
func (p *pace) left(queued int, due, wall time.Time) time.Duration {
	if p.bound == 0 || queued >= p.target {
		return 0
	}
	until := p.until
	if !due.IsZero() && due.Before(until) {
		until = due
	}
	return min(until.Sub(wall), p.bound) // a clock that was set back does not prolong the wait
}

// end ends the current wait; the next answers may start another.
func (p *pace) end() { p.bound = 0 }
