package batchwait

import "time"

// Most bounds every wait.
const Most = 10 * time.Millisecond

const (
	// least is the shortest wait that is worth it: timers are not exact.
	least = 50 * time.Microsecond
	// judged is the least number of waits that are judged together. The first of them only join groups that took turns,
	// at the cost of the larger group; the next ones gain from it.
	judged = 4
	// proven is the number of successful waits after which all earlier failures are forgotten.
	proven = 8
	// After waits that did not pay, this many batches go without a wait: pauseLeast, then about twice as many each
	// time, up to pauseMost. All these numbers are odd: when two groups take turns, the next attempt meets the other
	// group.
	pauseLeast, pauseMost = 5, 129
)

// Pace is the rule for one stream of batches. When n requests were answered while q wait in the queue, the next batch
// goes as soon as n+q requests wait, or when the time is up. That time is the duration of the longest recent batch, and
// at most Most.
//
// Waits continue as long as they pay: as long as a fifth more requests come during the waits than would come anyway in
// that time. The expected number follows from the size of a batch and its duration with its wait. Callers that do not
// return come at the same rate at any time, so the waits stop and are tried again rarely. If only a part of the
// answered callers returns in time, the batch waits for that part, and from time to time for all of them. A lone
// request never waits.
//
// The zero value is ready for use. A Pace belongs to one goroutine at a time.
type Pace struct {
	took  time.Duration // moving average of the duration of a batch, over about eight; 0 before the first
	long  time.Duration // duration of the longest recent batch: it fades by 1/64 with each batch
	share float64       // share of the answered requests that a batch waits for; 0 if waits have stopped
	pause int           // number of batches until a batch waits for all of them again
	last  int           // length of the newest pause, from which the next one grows; 0 starts with the shortest

	// Decaying sums of what the waits gained.
	came  float64 // requests that came during them
	usual float64 // requests that would have come anyway
	waits int     // number of waits since they last stopped; not decaying

	// About the newest batch.
	answered, queued int           // requests in it, and requests in the queue when it was answered
	target           int           // number of requests that the next batch waits for
	bound            time.Duration // longest wait, counted from the answers; 0 disables it
	until            time.Time     // at plus bound
	ended            bool          // by End
	at               time.Time     // time of the answers
	first            int           // requests in the queue at the first look; 0 if the wait has delayed no request
	waited           time.Duration // duration of the wait that is not judged yet; 0 if there is none
	caught           int           // requests that came during it, without those that prove nothing
}

// Answered records that n requests were answered by a batch that took this long, while queued requests wait. It reports
// whether the next batch waits.
func (p *Pace) Answered(n, queued int, took time.Duration, now time.Time) (waits bool) {
	if p.took == 0 {
		p.took = took
	}
	p.took = (7*p.took + took) / 8
	p.long = max(took, p.long-p.long/64)
	if p.pause > 0 {
		p.pause--
	}
	if p.pause == 0 {
		p.share = 1
	}
	p.judge(n)
	p.answered, p.queued, p.ended, p.at, p.first = n, queued, false, now, 0
	p.target = queued + int(p.share*float64(n)+0.001)
	p.bound = min(p.long, Most)
	p.until = now.Add(p.bound)
	if n+queued <= 1 || p.target == queued || p.bound < least {
		p.bound = 0
	}
	return p.bound > 0
}

// judge evaluates the wait before a batch of n requests, together with earlier waits.
func (p *Pace) judge(n int) {
	if p.waited <= 0 {
		return
	}
	p.came = p.came*7/8 + float64(p.caught)
	p.usual = p.usual*7/8 + float64(n)*float64(p.waited)/float64(p.waited+p.took)
	p.waits++
	p.waited = 0
	switch {
	case p.waits < judged:
	case p.came < 1.2*p.usual:
		p.share, p.came, p.usual, p.waits = 0, 0, 0, 0
		p.backOff()
	case p.waits == proven:
		p.last = 0
	}
}

// backOff begins a pause about twice as long as the last one.
func (p *Pace) backOff() {
	p.last = min(max(pauseLeast, 2*p.last-1), pauseMost)
	p.pause = p.last
}

// Left returns how much longer to wait while queued requests wait. due is when the first of them is due, or zero. At 0
// the batch goes with all queued requests, and the wait is over.
func (p *Pace) Left(queued int, due, now time.Time) time.Duration {
	if p.bound == 0 || queued == 0 {
		return 0
	}
	until := p.until
	if !due.IsZero() && due.Before(until) {
		until = due
	}
	left := min(until.Sub(now), p.bound) // a clock that was set back makes no wait longer
	if queued < p.target && left > 0 && !p.ended {
		if p.first == 0 {
			p.first = queued
		}
		return left
	}
	p.bound = 0
	if p.first == 0 {
		return 0
	}
	p.waited, p.caught = now.Sub(p.at), queued-p.queued
	// a batch only goes when a request has come, so the first one proves nothing, unless it belongs to one of few
	// groups
	if p.queued == 0 {
		p.caught -= min(p.first, max(1, p.answered/8))
	}
	if queued < p.target {
		back := float64(queued-p.queued) / float64(p.answered)
		p.share = (p.share + min(1, back)) / 2
		if p.pause == 0 {
			p.backOff()
		}
	}
	return 0
}

// End ends the current wait, if there is one.
func (p *Pace) End() { p.ended = true }

// Target returns the number of requests that the next batch waits for, if it waits.
func (p *Pace) Target() int { return p.target }
