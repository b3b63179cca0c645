package raftfsm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// After a write has been outstanding for hungTicks, its group stops sending, so that the others elect a new leader.
// After fatalTicks the process stops itself. hashicorp/raft keeps sending heartbeats while its main goroutine waits for
// the disk: without the watchdog, a leader with a hung disk would stay leader forever (hashicorp/raft issues 503 and
// 614).
//
// The writes of the small file wait for each other. As long as one after the other returns, the disk is slow and does
// not hang: many groups that start at once on a disk that takes tens of milliseconds for a write wait for seconds
// together.
//
// Time is counted in ticks that this goroutine received. A ticker drops the ticks of a paused process, so a pause of
// any length counts once and is not taken for a hung disk.
const (
	watchdogTick = heartbeatTimeout / 5
	hungTicks    = 5
	fatalTicks   = 3 * hungTicks
)

// watchdog detects writes to the stores that do not return.
type watchdog struct {
	fault  *diskLatch
	fatal  int // ticks until a write is taken for one that never returns
	mu     sync.Mutex
	writes map[*pendingWrite]struct{} // those under way; guarded by mu
}

// pendingWrite is one call that has not returned yet.
type pendingWrite struct {
	what   string
	inLine bool         // of the small file, behind its other writes
	hung   *atomic.Bool // the group's flag: its transport sends nothing while it is set; never nil
	ticks  int          // since it began; guarded by watchdog.mu, as is still
	still  int          // since it began, or since a write before it in the line returned
}

func newWatchdog(p *diskLatch, fatal int) *watchdog {
	return &watchdog{fault: p, fatal: fatal, writes: make(map[*pendingWrite]struct{})}
}

// begin registers a write; the caller calls end, once, when it has returned.
func (w *watchdog) begin(began pendingWrite) (end func()) {
	outstanding := &began
	w.mu.Lock()
	w.writes[outstanding] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.writes, outstanding)
		w.mu.Unlock()
		if outstanding.ticks >= hungTicks {
			outstanding.hung.Store(false)
		}
	}
}

// lineMoved is told when a write of the small file has returned, watched or not.
func (w *watchdog) lineMoved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for outstanding := range w.writes {
		if outstanding.inLine {
			outstanding.still = 0 //mutant:slow-line-is-a-hang
		}
	}
}

// tick sets the latch if a write has taken too long. It no longer holds mu then, for which other writes would wait as
// long as the marks of the disk take.
func (w *watchdog) tick() {
	if late := w.age(); late != nil {
		w.fault.fail(fmt.Errorf("%s did not return within %v: the disk hangs", late.what, time.Duration(w.fatal)*watchdogTick))
	}
}

// age counts a tick for every outstanding write and returns one that has taken too long.
func (w *watchdog) age() *pendingWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	var late *pendingWrite
	for outstanding := range w.writes {
		outstanding.ticks++
		outstanding.still++
		if outstanding.ticks >= hungTicks {
			outstanding.hung.Store(true)
		}
		if outstanding.still >= w.fatal {
			late = outstanding
		}
	}
	return late
}

// every calls f at an interval until stop is closed.
func every(interval time.Duration, stop <-chan struct{}, f func()) {
	tick := time.Tick(interval)
	for {
		select {
		case <-tick:
			f()
		case <-stop:
			return
		}
	}
}
