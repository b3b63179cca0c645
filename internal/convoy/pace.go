package convoy

import "time"

// Most bounds every wait.
const Most = 10 * time.Millisecond

const (
	// least is what a wait must be worth: timers are not exact.
	least = 50 * time.Microsecond
	// judged is how many waits are judged together at least. The first of them only bring together what were groups that
	// took turns, at the cost of the larger one; the next ones gain by it.
	judged = 4
	// proven is after how many waits that paid all failures before are forgotten.
	proven = 8
	// After waits that did not pay so many batches go without one: pauseLeast, then twice as many, pauseMost in the end. All
	// are odd: of two groups that take turns the next attempt meets the other one.
	pauseLeast, pauseMost = 5, 129
)

// Pace is the rule for one stream of batches. When n requests have been answered while q queue, the next batch goes as soon
// as n+q queue, and after a while in any case: as long as the longest batch of late took, and Most at most.
//
// Waiting goes on as long as it pays: as long as more come during the waits, by a fifth, than would come anyway in that time,
// going by how many there are in a batch and how long one takes with its wait. Where callers do not come back they come as often
// at any time, so waiting stops, and is tried again rarely. Where only some of those who were answered come back in time, so
// many are waited for, and all of them again from time to time. A request that is alone never waits.
//
// The zero value is ready. A Pace belongs to one goroutine at a time.
type Pace struct {
	took  time.Duration // by a batch, on average
	long  time.Duration // by the longest of late
	share float64       // of those who were answered so many are waited for; 0: waiting has stopped
	pause int           // batches until all of them are waited for
	last  int           // the pause before

	// What the waits were worth, the older the less.
	came  float64 // requests that came during them
	usual float64 // requests that would have come anyway
	waits int     // how many, since waiting was stopped

	// Of the newest batch.
	answered, queued int           // requests in it, and behind it when it was answered
	target           int           // requests that are worth waiting for
	bound            time.Duration // of the wait, from the answers on; 0: there is none
	until            time.Time
	ended            bool          // by End
	at               time.Time     // of the answers
	first            int           // requests that were there first of all; 0: the wait has held up nobody
	waited           time.Duration // what became of it
	caught           int           // requests that came meanwhile
}

// Answered notes that n requests were answered, by a batch that took so long, while so many more queue. It reports whether
// the next batch waits for them.
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

// judge looks at the wait of a batch of n requests, and at those before it.
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

func (p *Pace) backOff() {
	p.last = min(max(pauseLeast, 2*p.last-1), pauseMost)
	p.pause = p.last
}

// Left is how much longer to wait while so many queue, of which none must go before a time: its zero value is never. At 0
// the batch goes, with all that queue, and the wait is over.
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
	if p.queued == 0 { // that somebody came is certain, as a batch goes: it says nothing, unless he is one of few groups
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

// End ends the wait, if there is one, until the next answers.
func (p *Pace) End() { p.ended = true }

// Target is for how many requests the next batch waits, if it waits.
func (p *Pace) Target() int { return p.target }
